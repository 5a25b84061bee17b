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

    ``n_steps`` steps of ε/n_steps along the sign of the gradient, each cut to the box (Madry et al. 2018,
    arxiv.org/abs/1706.06083). The first gradient is taken at ε/n_steps·direction, with ``direction`` in [−1, 1], as
    that of a divergence from the unperturbed policy is 0 at δ = 0; the first step begins at 0, so that as many steps
    reach every corner. Entries where ``attackable`` is 0 stay 0. The result is constant to the gradient of anything
    else.
    """

    def total(perturbation: Perturbation) -> tuple[Tensor, Tensor]:
        each = objective(perturbation)
        return each.sum(), each

    size = epsilon / n_steps
    with torch.no_grad():  # `torch.func` differentiates within, and what is outside is not tracked
        found = {name: size * x * attackable[name] for name, x in direction.items()}
        first: Tensor | None = None
        for _ in range(n_steps):
            slopes, (_, each) = grad_and_value(total, has_aux=True)(found)
            steps = {name: size * torch.sign(slope) * attackable[name] for name, slope in slopes.items()}
            if first is None:
                first, found = each, steps
                continue
            for name, step in steps.items():
                bound = epsilon * attackable[name]
                found[name] = torch.minimum(torch.maximum(found[name] + step, -bound), bound)
    assert first is not None, "an ascent has at least one step"
    return Ascent({name: x.detach() for name, x in found.items()}, first.detach())


def ascent_on_both_sides(
    objective: Callable[[Perturbation], Tensor],
    direction: Mapping[str, Tensor],
    epsilon: Tensor | float,
    n_steps: int,
    attackable: Mapping[str, Tensor],
    judge: Callable[[Perturbation], Tensor] | None = None,
    group: Tensor | None = None,
) -> Ascent:
    """`projected_ascent` from a start and from its opposite, and of each row the better one by ``judge`` [B], or else
    by the objective: a divergence from the unperturbed policy has a maximum on either side.

    Rows of one ``group`` [B], which depend on each other's perturbations, take the side with the larger sum."""
    opposite = {name: -x for name, x in direction.items()}
    one, other = (projected_ascent(objective, x, epsilon, n_steps, attackable) for x in (direction, opposite))
    judge = judge or objective
    with torch.no_grad():
        gain = judge(other.perturbation) - judge(one.perturbation)
        if group is not None:
            gain = gain.new_zeros(len(gain) + 1).index_add(0, group, gain).index_select(0, group)
        better = gain > 0.0
    chosen = {
        name: torch.where(better.view(-1, *[1] * (x.dim() - 1)), other.perturbation[name], x)
        for name, x in one.perturbation.items()
    }
    return Ascent(chosen, one.first)
