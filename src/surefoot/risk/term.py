"""What a risk term is: it changes the advantages that the policy learns from, and nothing else (R02)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from surefoot.critics.auxiliary import Auxiliary


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
    running: Tensor
    """Return of the episode before the step, float64, discounted as the term's `context_discount` says."""
    weight: Tensor
    """Discount of the step's reward in that return, float64."""
    first_step: int = 0
    """Vector steps before the rollout, for messages."""

    @property
    def done(self) -> Tensor:
        """The step ended an episode; a truncated one counts with what it earned until then."""
        return (self.terminated | self.truncated) & self.valid

    @property
    def after(self) -> Tensor:
        """Return of the episode after the step, float64."""
        return self.running + self.weight * self.reward


class Unit(NamedTuple):
    """How networks see the return of an open episode: (x − origin)/scale."""

    origin: float
    scale: float


class RiskTerm(ABC):
    """One of the kinds of the configuration's section ``risk``.

    In each iteration: `observe` the rollout, which moves statistics and multiplier before they are used; `signal`,
    whose expected sum a critic of the term's own learns, and from which GAE makes its advantages; `adjust`; and, after
    the update, `advance`. `signal` and `adjust` change nothing.
    """

    auxiliary: Auxiliary
    """What the critic of the term's own learns."""
    alpha: float | None = None
    """Level of the CVaR that the term is about; None if it is about none, and no tail is read."""
    context_discount: float | None = None
    """Discount of the return so far that the term needs to know of each step; None if it needs none."""
    needs_costs: bool = False
    """Whether every step must have its cost."""

    @property
    def summary(self) -> str:
        """What the term changes, in one line for the log."""
        return f"the policy learns from advantages that {type(self).__name__} adjusts"

    @abstractmethod
    def observe(self, steps: Steps, multiplier_lr: float) -> dict[str, float]:
        """Take in a rollout; metrics by log key."""

    @abstractmethod
    def signal(self, steps: Steps) -> Tensor:
        """What the auxiliary critic learns the sum of, [T, N] raw; large is good."""

    @abstractmethod
    def adjust(self, advantages: Tensor, auxiliary: Tensor) -> Tensor:
        """Risk-adjusted advantages [T, N] from those of the return and those of the signal, both in one unit.

        They are joined before anything is normalized, so that normalization changes the size of the step and not the
        weight of risk against return."""

    @abstractmethod
    def advance(self) -> None:
        """The update is made: move what had to stay while the rollout was learned from."""

    @property
    def unit(self) -> Unit | None:
        """In which networks see the return so far from now on; None as long as it is not known."""
        return None

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
