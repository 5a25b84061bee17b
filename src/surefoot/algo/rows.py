"""What metrics are computed from: the rows of minibatches, and the rollout."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from torch import Tensor

from surefoot.actions.distribution import Family
from surefoot.algo.estimate import Estimates
from surefoot.algo.objective import Terms
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
