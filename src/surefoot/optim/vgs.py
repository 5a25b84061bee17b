"""Variance-based gradient scaling: tensors whose gradient is mostly noise get a lower learning rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from surefoot.optim.flat import FlatParameters, Slot
from surefoot.optim.optimizer import Optimizer, Rate

OUTPUT_LAYER = ("output.linear.weight", "output.linear.bias")
"""What the tensors are called whose rows belong to heads."""
SMALLEST = 1e-30
"""Added to the signal, so that a gradient that is always 0 has no noise rather than 0/0."""


class VGS(Optimizer):
    """Multiplies the learning rate of each tensor, whatever optimizer uses it (O06), by

        1/(1 + α·Σ_j (v_j - m_j²)⁺ / Σ_j m_j²)

    over the elements j of the tensor, where m and v are running means of the raw gradient (before any clipping) and of
    its square, corrected for their bias. A constant gradient gives 1; noise of variance s² around m gives
    1/(1 + α·s²/m²), but for the noise that is left in m: with β = 0.99 that is 1/200 of s².

    ``heads`` says which outputs of the output layer belong to which head of the action. They count as tensors of their
    own: heads share that layer, and not their noise.
    """

    def __init__(
        self, inner: Optimizer, flat: FlatParameters, alpha: float, beta: float, heads: Mapping[str, slice]
    ) -> None:
        self.inner, self._flat, self._alpha, self._beta = inner, flat, alpha, beta
        self._slots = [piece for slot in flat.slots for piece in by_head(slot, heads)]
        self._of_heads = {
            head: [slot.where for slot in self._slots if slot.name in {f"{name}/{head}" for name in OUTPUT_LAYER}]
            for head in heads
        }
        self._sizes = [slot.where.stop - slot.where.start for slot in self._slots]
        self._starts = np.array([slot.where.start for slot in self._slots])
        device = flat.values.device
        self._slot = torch.repeat_interleave(torch.arange(len(self._sizes)), torch.tensor(self._sizes)).to(device)
        """[P] number of the tensor that a parameter belongs to."""
        self.mean, self.square = torch.zeros_like(flat.values), torch.zeros_like(flat.values)
        self.steps = torch.zeros((), dtype=torch.int64, device=device)
        self.multipliers = torch.ones(len(self._sizes), device=device)
        """Of each tensor, by the gradients so far."""

    @property
    def compilable(self) -> bool:
        return self.inner.compilable

    def begin(self) -> None:
        self.inner.begin()

    def prepare(self) -> None:
        self.inner.prepare()

    def observe(self, gradient: Tensor, allowed: Tensor | None = None) -> None:
        self.inner.observe(gradient, allowed)
        if allowed is None:
            self.steps.add_(1)
            self.mean.lerp_(gradient, 1 - self._beta)
            self.square.mul_(self._beta).addcmul_(gradient, gradient, value=1 - self._beta)
            seen_share: Tensor | float = 1 - self._beta ** int(self.steps)
        else:
            self.steps.add_(allowed)
            seen = torch.where(allowed, gradient, 0.0)
            weight = torch.where(allowed, 1 - self._beta, 0.0)
            self.mean.lerp_(seen, weight)
            self.square.lerp_(seen * seen, weight)
            # One number, found once: a compiled function stores what a reduction over enough entries gives.
            taken = self.steps.clamp(min=1).to(torch.float64)
            seen_share = (1 - torch.pow(self._beta, taken)).to(self.mean.dtype).expand(16).amax()
        signal = self.mean * self.mean
        noise = (self.square * seen_share - signal).clamp(min=0.0)  # both times the squared share, which cancels
        on_host = allowed is None and noise.device.type == "cpu"
        noise, signal = (self._sums(x, on_host) for x in (noise, signal))
        self.multipliers.copy_(1 / (1 + self._alpha * noise / (signal + SMALLEST)))

    def _sums(self, x: Tensor, on_host: bool) -> Tensor:
        """Over the elements of each tensor; by one call where nothing is recorded."""
        if on_host:
            return torch.from_numpy(np.add.reduceat(x.numpy(), self._starts))
        return torch.cat([piece.sum(0, keepdim=True) for piece in torch.split(x, self._sizes)])

    def _scaled(self, learning_rate: Rate) -> Tensor:
        return self.multipliers.index_select(0, self._slot) * learning_rate

    def step(self, values: Tensor, gradient: Tensor, learning_rate: Rate, allowed: Tensor) -> None:
        self.inner.step(values, gradient, self._scaled(learning_rate), allowed)

    def step_(self, values: Tensor, gradient: Tensor, learning_rate: Rate) -> None:
        self.inner.step_(values, gradient, self._scaled(learning_rate))

    def tensors(self) -> Sequence[Tensor]:
        return [*self.inner.tensors(), self.mean, self.square, self.steps, self.multipliers]

    def state_dict(self) -> dict[str, Tensor]:
        found = self.inner.state_dict() | {"vgs/steps": self.steps}
        for slot, multiplier in zip(self._slots, self.multipliers, strict=True):
            found[f"vgs/mean/{slot.name}"] = self.mean[slot.where].view(slot.shape)
            found[f"vgs/square/{slot.name}"] = self.square[slot.where].view(slot.shape)
            found[f"vgs/multiplier/{slot.name}"] = multiplier
        return found

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        self.inner.load_state_dict(saved)
        for name, tensor in self.state_dict().items():
            if name.startswith("vgs/"):
                if saved[name].shape != tensor.shape:
                    raise ValueError(
                        f"the saved {name} has shape {tuple(saved[name].shape)}, not {tuple(tensor.shape)}"
                    )
                tensor.copy_(saved[name])

    def metrics(self) -> dict[str, float]:
        found = self.inner.metrics()
        every = self.multipliers.index_select(0, self._slot)
        for part, where in self._flat.slices.items():
            if where.stop > where.start:
                found[f"train/vgs_multiplier/{part}"] = float(every[where].mean())
        for head, pieces in self._of_heads.items():
            found[f"train/head/{head}/vgs_multiplier"] = float(torch.cat([every[where] for where in pieces]).mean())
        return found


def by_head(slot: Slot, heads: Mapping[str, slice]) -> list[Slot]:
    """A tensor of the output layer cut into the rows of each head; any other as it is."""
    if not heads or slot.name not in OUTPUT_LAYER:
        return [slot]
    row, start = slot.shape[1:], slot.where.start
    return [
        Slot(
            f"{slot.name}/{head}",
            slice(start + outputs.start * row.numel(), start + outputs.stop * row.numel()),
            torch.Size((outputs.stop - outputs.start, *row)),
        )
        for head, outputs in heads.items()
    ]
