"""Rows of a rollout, flat, in shuffled minibatches of one size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.algo.estimate import Estimates
from surefoot.rollout.buffer import Rollout


class Batch(NamedTuple):
    """B rows. ``weight`` is 0 for rows that are no transitions or only fill up a minibatch."""

    observation: dict[str, Tensor]
    action: Tensor
    log_prob: Tensor
    parameters: Tensor
    advantages: Tensor
    returns: Tensor
    targets: Tensor
    """What the critic learns: [B] or [B, M]."""
    prediction: Tensor
    weight: Tensor
    row: Tensor
    """Position t·N + env in the rollout."""

    def rows(self, index: Tensor | slice) -> Batch:
        """Some of the rows; a slice gives views."""
        return Batch({name: x[index] for name, x in self.observation.items()}, *(x[index] for x in self[1:]))


def flatten(rollout: Rollout, estimates: Estimates, device: torch.device) -> Batch:
    """All rows, [T·N]."""

    def rows(x: Tensor) -> Tensor:
        return x.flatten(0, 1).to(device)

    return Batch(
        observation={name: rows(x[:-1]) for name, x in rollout.observation.items()},
        action=rows(rollout.action),
        log_prob=rows(rollout.log_prob),
        parameters=rows(rollout.parameters),
        advantages=rows(estimates.advantages),
        returns=rows(estimates.returns),
        targets=rows(estimates.targets),
        prediction=rows(estimates.prediction),
        weight=rows(rollout.valid.to(torch.float32)),
        row=torch.arange(rollout.n_steps * rollout.n_envs, device=device),
    )


def minibatches(batch: Batch, size: int, generator: torch.Generator) -> Iterator[Batch]:
    """One epoch: every row once, shuffled, in minibatches of exactly ``size`` rows.

    If the rows do not fill the last one, it is filled up with rows of weight 0: a smaller minibatch in a tensor of the
    same shape.
    """
    count = batch.weight.shape[0]
    order = torch.randperm(count, generator=generator).to(batch.weight.device)
    missing = -count % size
    if missing:
        order = torch.cat([order, order[:missing]])
    shuffled = batch.rows(order)
    if missing:
        shuffled.weight[count:] = 0.0
    for start in range(0, count, size):
        yield shuffled.rows(slice(start, start + size))
