"""What metrics are computed from: the rows of minibatches, and the rollout."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.actions.distribution import Family
from surefoot.algo.estimate import Estimates
from surefoot.algo.objective import Terms
from surefoot.math.explained import explained_variance
from surefoot.rollout.buffer import Rollout


class Rows(NamedTuple):
    """Quantities of the rows of many minibatches, [B] each."""

    terms: Terms
    kl: Tensor
    """By the configured estimator; by k3 if that is exact."""
    clip_range: float


class RolloutData:
    """The rollout that an update learns from."""

    def __init__(self, rollout: Rollout, estimates: Estimates, family: Family) -> None:
        self.rollout, self.estimates, self.family = rollout, estimates, family

    @cached_property
    def advantages(self) -> Tensor:
        """Raw, of the transitions."""
        return self.estimates.raw_advantages[self.rollout.valid]

    @cached_property
    def returns(self) -> Tensor:
        """Of the transitions."""
        return self.estimates.returns[self.rollout.valid]

    @cached_property
    def values(self) -> Tensor:
        """Of the transitions."""
        return self.estimates.values[self.rollout.valid]

    @cached_property
    def explained_variance_by_env(self) -> Tensor:
        """Of the envs whose returns vary."""
        estimates = self.estimates
        by_env = explained_variance(estimates.values, estimates.returns, self.rollout.valid, by_env=True)
        return by_env[~torch.isnan(by_env)]

    @property
    def action_shares(self) -> Tensor | None:
        """Share of each action that was taken; None if actions are not discrete."""
        if self.rollout.action.dtype != torch.int64:
            return None
        action = self.rollout.action[self.rollout.valid]
        counts = action.flatten().bincount() if action.numel() == len(action) else _count_rows(action)
        return counts / counts.sum()

    @property
    def clipped_actions(self) -> Tensor | None:
        """Which entries were clipped to the box; None if the policy does not clip."""
        return self.family.is_clipped(self.rollout.action[self.rollout.valid])

    @property
    def stds(self) -> Tensor | None:
        """Of the transitions; None if the policy has none in the units of the env."""
        return self.family.std(self.rollout.parameters[self.rollout.valid])


def _count_rows(x: Tensor) -> Tensor:
    """How often each different row of [B, D] with D numbers from 0 on occurs."""
    sizes = x.amax(0) + 1 if len(x) else x.new_ones(x.shape[1])
    if float(sizes.double().prod()) >= 2**62:
        by_row: Tensor = torch.unique(x, dim=0, return_counts=True)[1]
        return by_row
    # One number per row: these are sorted far faster than rows are.
    codes = (x * sizes.cumprod(0).div(sizes, rounding_mode="floor")).sum(1)
    found: Tensor = torch.unique(codes, return_counts=True)[1]
    return found
