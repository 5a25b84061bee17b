"""What a risk term is: it sees each rollout once and changes the advantages, nothing else (R02)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor


class Steps(NamedTuple):
    """A rollout as a risk term sees it; all [T, N], rewards and costs raw."""

    reward: Tensor
    cost: Tensor
    start: Tensor
    """The step is the first of an episode."""
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    """False rows are no steps (A03)."""

    @property
    def done(self) -> Tensor:
        """The step ended an episode; a truncated one counts with what it earned until then."""
        return (self.terminated | self.truncated) & self.valid


class Estimated(NamedTuple):
    """What the learner's critics say about the steps; all [T, N]."""

    advantages: Tensor
    """Of the return, in the unit of the critic."""
    reward_scale: float
    """Raw reward per unit of the critic."""
    cost_advantages: Tensor | None = None
    """Of the cost, raw."""
    predicted_cvar: Tensor | None = None
    """CVaR of the discounted return from each step on, raw; None if the critic knows only means."""


class Shaped(NamedTuple):
    """What the policy learns from, not yet normalized, and what to log."""

    advantages: Tensor
    metrics: dict[str, float]


class RiskTerm(ABC):
    """One of the kinds of the configuration's section ``risk``."""

    alpha: float | None = None
    """Level of the CVaR that the term is about, if it is."""

    @abstractmethod
    def __call__(self, steps: Steps, estimated: Estimated, multiplier_lr: float) -> Shaped:
        """Take in a rollout and shape its advantages. The two terms are joined before anything is normalized, so that
        normalization changes the size of the step and not the weight of risk against return."""

    @abstractmethod
    def is_open_for(self, n_envs: int) -> bool:
        """Whether what is known of open episodes is of so many envs."""

    @abstractmethod
    def forget_open(self, n_envs: int) -> None:
        """All envs, now so many, start new episodes."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """As JSON."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
