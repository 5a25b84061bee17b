"""The worst perturbation within a box around the observations, by projected gradient ascent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import grad_and_value

Perturbation = dict[str, Tensor]
"""By leaf of the observation, [B, ...] each."""


class Ascent(NamedTuple):
    """What `projected_ascent` found."""

    perturbation: Perturbation
    first: Tensor
    """[B] objective at the start."""


def projected_ascent(
    objective: Callable[[Perturbation], Tensor],
    direction: Mapping[str, Tensor],
    epsilon: Tensor | float,
    n_steps: int,
    attackable: Mapping[str, Tensor],
) -> Ascent:
    """A perturbation δ with |δ| ≤ ε in every entry that makes an objective [B], one value per row, large.

    From δ = ε/n_steps·direction, with ``direction`` in [−1, 1], ``n_steps`` steps of ε/n_steps along the sign of the
    gradient, each cut to the box (Madry et al. 2018, arxiv.org/abs/1706.06083). Entries where ``attackable`` is 0 stay
    0. The result is constant to the gradient of anything else. A start at 0 would be of no use for a divergence from
    the unperturbed policy, whose gradient is 0 there; from farther away than a step, the steps would not reach every
    corner.
    """

    def total(perturbation: Perturbation) -> tuple[Tensor, Tensor]:
        each = objective(perturbation)
        return each.sum(), each

    with torch.no_grad():  # `torch.func` differentiates within, and what is outside is not tracked
        found = {name: (epsilon / n_steps) * x * attackable[name] for name, x in direction.items()}
        first: Tensor | None = None
        for _ in range(n_steps):
            slopes, (_, each) = grad_and_value(total, has_aux=True)(found)
            first = each if first is None else first
            for name, slope in slopes.items():
                moved = found[name] + (epsilon / n_steps) * torch.sign(slope) * attackable[name]
                found[name] = torch.minimum(
                    torch.maximum(moved, -epsilon * attackable[name]), epsilon * attackable[name]
                )
    assert first is not None, "an ascent has at least one step"
    return Ascent({name: x.detach() for name, x in found.items()}, first.detach())
