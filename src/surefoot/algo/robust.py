"""State-adversarial PPO: act alike on observations that are nearly alike (arxiv.org/abs/2003.08938; S01)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from surefoot.algo.loss_term import LossTerm, TermInputs, TermMetric, TermResult
from surefoot.math.adversary import Perturbation, ascent_on_both_sides

if TYPE_CHECKING:
    from surefoot.actions.distribution import Family
    from surefoot.vector.normalize import ObservationNormalizer


class RobustKL(LossTerm):
    """max KL(π(s) ‖ π(ŝ)) over |ŝ − s| ≤ ε in every attackable feature, found by `ascent_on_both_sides`.

    π(s) is constant here, as in the authors' code: the perturbed policy is drawn to the clean one, which the surrogate
    alone moves. With memory the whole sequences are perturbed. A feature that never varied has no standard deviation
    for ε to count, and stays as it is.
    """

    name = "robust"
    compilable = True
    metrics = (
        TermMetric("train/robust_kl", "mean", "nats", "KL(π(s) ‖ π(ŝ)) at the worst ŝ found, before its coefficient."),
        TermMetric(
            "train/robust_kl_random", "mean", "nats", "The same where the search begins: at random, within ε/steps."
        ),
        TermMetric("train/robust_epsilon", "mean", "σ", "Largest change of a feature, as far as it has risen."),
    )
    needs_masks = True

    def __init__(
        self,
        coefficient: float | str,
        epsilon: float | str,
        n_steps: int,
        attackable: Mapping[str, Tensor],
        family: Family,
        normalizer: ObservationNormalizer | None,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        super().__init__(coefficient, epsilon)
        self._n_steps, self._family, self._generator, self._device = n_steps, family, generator, device
        self._allowed, self._normalizer = {name: x.to(device) for name, x in attackable.items()}, normalizer
        self._attackable = {name: x.clone() for name, x in self._allowed.items()}

    def begin(self, advantages: Tensor, weight: Tensor) -> None:
        if self._normalizer is not None:
            for name, x in self._attackable.items():
                x.copy_(self._allowed[name] * torch.from_numpy(self._normalizer.varies(name)).to(x))

    def tensors(self) -> Sequence[Tensor]:
        return list(self._attackable.values())

    def draw(self, n_rows: int) -> tuple[Tensor, ...]:
        """Where each search begins, in units of its steps: uniform in [−1, 1]."""
        return tuple(
            (2.0 * torch.rand(n_rows, *x.shape, generator=self._generator) - 1.0).to(self._device)
            for x in self._attackable.values()
        )

    def __call__(self, inputs: TermInputs, numbers: Sequence[Tensor | float], drawn: Sequence[Tensor]) -> TermResult:
        batch, epsilon = inputs.batch, numbers[1]
        clean = self._family.bind(inputs.parameters.detach(), batch.mask)

        def divergence(perturbation: Perturbation) -> Tensor:
            seen = batch.observation | {name: batch.observation[name] + x for name, x in perturbation.items()}
            return clean.kl(self._family.bind(inputs.forward(seen, True), batch.mask))

        counts = batch.weight.view(-1)

        def counted(perturbation: Perturbation) -> Tensor:
            return divergence(perturbation) * counts

        start = dict(zip(self._attackable, drawn, strict=True))
        group = None if batch.sequences is None else batch.sequences.sequence_of(len(counts))
        found = ascent_on_both_sides(counted, start, epsilon, self._n_steps, self._attackable, group=group)
        loss = divergence(found.perturbation)
        size = torch.as_tensor(epsilon, dtype=loss.dtype, device=loss.device)
        return TermResult(loss, (loss, found.first, size))

    def state_dict(self) -> dict[str, Tensor]:
        return {"generator": self._generator.get_state()}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        self._generator.set_state(saved["generator"].to("cpu", torch.uint8))
