"""How far what was earned falls short of a threshold, as a reward of every step (R08).

CVaR_α(R) = max_w w − E[(w − R)⁺]/α (Rockafellar, Uryasev 2000), and the best w is VaR_α. With w held fixed, the policy
gradient of CVaR is therefore that of the expected *shortfall* u(R) = min(0, R − w)/α. For the return R of an episode,
let x_t be what it has earned before step t. The increments

    u(x_{t+1}) − u(x_t)

add up to u(R) up to a constant, so that they are an ordinary reward: a critic learns their sum from here on, GAE
bootstraps it where a rollout ends, and every step is credited however long its episode is. The sum is not discounted,
for only then do the increments telescope; a discount of the return is within x. What is to come depends on x as well as
on the observation, so the critic sees both.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from surefoot.critics.auxiliary import Auxiliary
from surefoot.errors import NonFiniteError, RiskError, SurefootWarning
from surefoot.math.risk import cvar_from_samples
from surefoot.math.tail import Tail, shortfall, standard_error, tail_of
from surefoot.risk.recent import RecentValues
from surefoot.risk.saved import count, numbers
from surefoot.risk.term import Steps, Unit

WANTED_IN_TAIL = 20
"""An estimate rests on at least this/α values once there are so many, so that so many are in the tail."""
THRESHOLD_RATE = 0.2
"""Share by which the threshold moves towards the quantile of the newest values in each update. Advantages are right for
any fixed threshold near the quantile; one that jumps makes the critic's task another one every time."""


class TailEstimate(NamedTuple):
    """What a rollout says about the tail."""

    cvar: float
    std: float
    """Of the values that the estimate rests on."""
    metrics: dict[str, float]


class Shortfall(ABC):
    """Of what the CVaR is: a value of each episode, or of each step."""

    auxiliary: Auxiliary
    context_discount: float | None = None

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._recent = RecentValues(sample_size(alpha))
        self._tail: Tail | None = None
        """Threshold and level that signals are of; None before there was any value."""
        self._next: Tail | None = None
        """What they move towards after the update."""

    @abstractmethod
    def values(self, steps: Steps) -> Tensor:
        """The values [n] that this rollout adds to the sample."""

    @abstractmethod
    def signal(self, steps: Steps) -> Tensor:
        """The reward [T, N], raw, whose expected sum is the shortfall; 0 as long as there is no threshold."""

    @abstractmethod
    def count_metrics(self, in_tail: float) -> dict[str, float]:
        """How many values of the tail this update rests on."""

    def observe(self, steps: Steps) -> TailEstimate | None:
        """Take in a rollout; None if it adds nothing to the sample."""
        values = self.values(steps)
        if not len(values):
            return None
        sample = self._recent.update(values)
        with quietly():
            tail = tail_of(sample, self._alpha)
        if self._tail is None:
            self._tail = tail
        self._next = tail
        metrics = {
            "risk/cvar": float(tail.cvar),
            "risk/cvar_se": standard_error(sample, tail),
            "risk/var": float(tail.var),
            "risk/level": tail.level,
            "risk/sample": float(len(sample)),
        }
        metrics |= self.count_metrics(_in_tail(values, tail))
        return TailEstimate(float(tail.cvar), self._recent.std_of(sample), metrics)

    def advance(self) -> None:
        """Move the threshold towards the newest quantile."""
        if self._tail is None or self._next is None:
            return
        old, new = self._tail, self._next
        self._tail = Tail(
            old.level + THRESHOLD_RATE * (new.level - old.level),
            torch.lerp(old.var, new.var, THRESHOLD_RATE),
            torch.lerp(old.cvar, new.cvar, THRESHOLD_RATE),
        )

    @property
    def unit(self) -> Unit | None:
        """Networks see how far an episode is from the threshold, in standard deviations."""
        return None if self._tail is None else Unit(float(self._tail.var), self._recent.std)

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "recent": self._recent.state_dict(),
            "tail": _as_json(self._tail),
            "next": _as_json(self._next),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        self._recent.load_state_dict(state["recent"])
        self._tail, self._next = _from_json(state["tail"]), _from_json(state["next"])


class EpisodeShortfall(Shortfall):
    """Of the return of an episode, plain or discounted. A truncated episode counts with what it earned until then."""

    def __init__(self, alpha: float, discount: float, n_context: int, max_steps_without_end: int) -> None:
        super().__init__(alpha)
        self.context_discount = discount
        self.auxiliary = Auxiliary("shortfall", 1.0, ends_with_truncation=True, n_context=n_context)
        self._max_steps = max_steps_without_end
        self._steps_without_end = 0

    def values(self, steps: Steps) -> Tensor:
        values = steps.after[steps.done]
        if not bool(torch.isfinite(values).all()):
            t, env = torch.nonzero(steps.done & ~torch.isfinite(steps.after))[0].tolist()
            raise NonFiniteError(
                f"the return of the episode that ended in env {env} at step {steps.first_step + t} is "
                f"{float(steps.after[t, env])}: its rewards are finite, their sum is not; scale them down"
            )
        self._count(len(values), steps.reward.shape[0])
        return values

    def signal(self, steps: Steps) -> Tensor:
        if self._tail is None:
            return torch.zeros_like(steps.reward)
        gained = shortfall(steps.after, self._tail) - shortfall(steps.running, self._tail)
        return torch.where(steps.valid, gained, 0.0).to(steps.reward.dtype)

    def count_metrics(self, in_tail: float) -> dict[str, float]:
        """With fewer than wanted it works with what there is, and the log says so."""
        found = {"risk/tail_episodes": in_tail, "risk/tail_episodes_wanted": float(WANTED_IN_TAIL)}
        return found | ({"warn/few_tail_episodes": in_tail} if in_tail < WANTED_IN_TAIL else {})

    def _count(self, ended: int, n_steps: int) -> None:
        """Raise if no episode ever ends."""
        self._steps_without_end = 0 if ended else self._steps_without_end + n_steps
        if self._steps_without_end >= self._max_steps:
            raise RiskError(
                f"no episode ended in {self._steps_without_end} steps of any env, so that the CVaR of an episode's "
                "return cannot be known. For episodes that do not end set risk.limit_per_step (risk.kind = "
                '"cvar_constraint"), which limits the CVaR of one-step returns; for very long ones raise '
                "risk.max_steps_without_episode"
            )

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"steps_without_end": self._steps_without_end}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._steps_without_end = count(state["steps_without_end"])


class StepShortfall(Shortfall):
    """Of the reward of a single step, which a risk desk calls the expected shortfall of one period.

    Every step is a value, so that few or endless episodes do; the sum of the signal is discounted as the return is.
    """

    def __init__(self, alpha: float, gamma: float) -> None:
        super().__init__(alpha)
        self.auxiliary = Auxiliary("shortfall", gamma)

    def values(self, steps: Steps) -> Tensor:
        return steps.reward[steps.valid].double()

    def signal(self, steps: Steps) -> Tensor:
        if self._tail is None:
            return torch.zeros_like(steps.reward)
        return torch.where(steps.valid, shortfall(steps.reward.double(), self._tail), 0.0).to(steps.reward.dtype)

    def count_metrics(self, in_tail: float) -> dict[str, float]:
        return {"risk/tail_steps": in_tail}


def _in_tail(values: Tensor, tail: Tail) -> float:
    """How many values [n] are below VaR, and of those equal to it as many as make up the share of the tail."""
    below, equal = float((values < tail.var).sum()), float((values == tail.var).sum())
    return below + min(equal, max(0.0, tail.level * len(values) - below))


def sample_size(alpha: float) -> int:
    """How many values an estimate at level α wants."""
    return math.ceil(WANTED_IN_TAIL / alpha)


@contextmanager
def quietly() -> Iterator[None]:
    """Samples may be too small for α: at the start every sample is, and ``risk/cvar_se`` says what it is worth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)
        yield


def quiet_cvar(sample: Tensor, alpha: float) -> float:
    """CVaR of a sample that may be too small for α."""
    with quietly():
        return float(cvar_from_samples(sample, alpha))


def _as_json(tail: Tail | None) -> list[float] | None:
    return None if tail is None else [float(x) for x in tail]


def _from_json(saved: Any) -> Tail | None:
    if saved is None:
        return None
    level, var, cvar = numbers(saved, 3)
    if not 0.0 < level <= 1.0:
        raise ValueError(f"{float(level):g} is no level of a tail: it is above 0 and at most 1")
    return Tail(float(level), var, cvar)
