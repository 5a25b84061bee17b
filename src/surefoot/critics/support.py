"""Where the atoms of a categorical critic lie, and how its predictions move when the atoms do (C03)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.math.categorical import two_hot

MARGIN = 0.25
"""Room on each side of the returns, as a share of their range."""
GROWTH = 1.0
"""The same on the one side on which returns have left the support, as those of an agent that gets better: they may go
on."""
WIDEST = 3.0
"""A support wider than this multiple of the range is narrowed."""
FORGETTING = 0.05
"""How fast an end of the range comes back, per rollout, when returns no longer reach it."""
NARROWEST = 1e-3
"""Least range, as a share of the largest return."""
OUTSIDE_STEP, OUTSIDE_DROP = 3.0, 6.0
"""Logits of atoms beyond the old support fall by the first per atom, and by the second at most: so little mass that
predictions hardly move (A09), and yet near enough to be raised before the support moves again."""


class ReturnRange(nn.Module):
    """Lowest and highest recent return; buffers, saved with the policy."""

    low: Tensor
    high: Tensor
    rollouts: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("low", torch.zeros(()))
        self.register_buffer("high", torch.zeros(()))
        self.register_buffer("rollouts", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def update_statistics(self, returns: Tensor, valid: Tensor) -> None:
        """Reach at once as far as the valid returns, [T, N] each, and come back slowly."""
        seen = returns[valid]
        if not seen.numel():
            return
        low, high = seen.min().to(self.low.device), seen.max().to(self.high.device)
        weight = 1.0 if not bool(self.rollouts) else FORGETTING
        self.low.copy_(torch.minimum(low, self.low.lerp(low, weight)))
        self.high.copy_(torch.maximum(high, self.high.lerp(high, weight)))
        self.rollouts.add_(1)

    @torch.no_grad()
    def rescale(self, factor: Tensor, offset: Tensor) -> None:
        """The range of factor·y + offset."""
        self.low.mul_(factor).add_(offset)
        self.high.mul_(factor).add_(offset)

    def support(self, atoms: Tensor) -> Tensor:
        """Evenly spaced atoms [K] that suit the range: those given if they still do, otherwise new ones."""
        low, high = float(self.low), float(self.high)
        width = max(high - low, NARROWEST * max(abs(low), abs(high)))
        first, last = float(atoms[0]), float(atoms[-1])
        if not width or (first <= low and high <= last and last - first <= WIDEST * width):
            return atoms
        grows = int(self.rollouts) > 1 and (low < first) != (high > last)
        below = GROWTH if grows and low < first else MARGIN
        above = GROWTH if grows and high > last else MARGIN
        centre = 0.5 * (low + high)
        ends = centre - (0.5 + below) * width, centre + (0.5 + above) * width
        return torch.linspace(*ends, atoms.shape[0], device=atoms.device)


@torch.no_grad()
def carry_over(layer: nn.Linear, atoms: Tensor, new_atoms: Tensor) -> None:
    """Let a layer of logits over ``atoms`` predict nearly the same distributions over ``new_atoms``, in place; [K].

    The logits are a function of the place, straight between atoms, and are read off at the new places. This is linear
    in the logits, so that it can be done to the weights once instead of to every prediction. A smooth distribution
    keeps its density; the mean of any distribution moves by less than an atom's width. Beyond the old atoms there is
    little mass.
    """
    read_off = two_hot(new_atoms, atoms)
    spacing = new_atoms[1] - new_atoms[0]
    beyond = (atoms[0] - new_atoms).clamp(min=0.0) + (new_atoms - atoms[-1]).clamp(min=0.0)
    layer.weight.copy_(read_off @ layer.weight)
    layer.bias.copy_(read_off @ layer.bias - (OUTSIDE_STEP * beyond / spacing).clamp(max=OUTSIDE_DROP))
