"""VaR and CVaR of the episode return from recent episodes, and the advantage of each step under CVaR."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from surefoot.errors import SurefootWarning
from surefoot.math.episodes import broadcast_to_steps
from surefoot.math.risk import cvar_from_samples
from surefoot.math.tail_gradient import Tail, tail_advantages, tail_of
from surefoot.risk.ledger import Ledger
from surefoot.risk.term import Steps
from surefoot.risk.waiting import Waiting

TAIL_EPISODES = 20
"""An estimate rests on at least TAIL_EPISODES/α episodes once there are so many, so that so many are in the tail."""


class TailReading(NamedTuple):
    """What a rollout says about the tail."""

    advantages: Tensor
    """[T, N] raw; 0 for steps whose episode has not ended."""
    cvar: float | None
    """None if no episode ended in the rollout."""
    spread: float
    """Of the returns of all episodes so far."""
    metrics: dict[str, float]


class TailReader:
    """Reads rollout after rollout.

    A step is credited in the rollout in which its episode ends, if it lies in that rollout. Steps of a long episode
    that lie in earlier rollouts are never credited: ``risk/credited_fraction`` says how many are.
    """

    def __init__(self, n_envs: int, alpha: float, discount: float) -> None:
        self._alpha = alpha
        self._waiting = Waiting(f"the CVaR of the worst {alpha:g} of episodes")
        self._returns = Ledger(n_envs, discount, sample_size(alpha))

    def read(self, steps: Steps) -> TailReading:
        """Take in a rollout."""
        entry = self._returns.enter(steps.reward, steps)
        waits = self._waiting.see(int(steps.done.sum()))
        metrics = {"risk/waiting": float(self._waiting.count)}
        if waits:
            return TailReading(torch.zeros_like(steps.reward), None, self._returns.spread, metrics)
        tail = _quiet_tail(entry.sample, self._alpha)
        spread, credited = broadcast_to_steps(tail_advantages(entry.totals, tail), steps.start, steps.done, steps.valid)
        n = len(entry.sample)
        metrics |= {
            "risk/cvar": float(tail.cvar),
            "risk/var": float(tail.var),
            "risk/level": tail.level,
            "risk/episodes": float(n),
            "risk/credited_fraction": float(credited.sum() / steps.valid.sum()),
        }
        if self._alpha * n < 1.0:
            metrics["warn/thin_tail"] = self._alpha * n
        return TailReading(spread.to(steps.reward.dtype), float(tail.cvar), self._returns.spread, metrics)

    def is_open_for(self, n_envs: int) -> bool:
        """Whether what is known of open episodes is of so many envs."""
        return self._returns.is_open_for(n_envs)

    def forget_open(self, n_envs: int) -> None:
        """All envs, now so many, start new episodes."""
        self._returns.forget_open(n_envs)

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"returns": self._returns.state_dict(), "waiting": self._waiting.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        self._returns.load_state_dict(state["returns"])
        self._waiting.count = int(state["waiting"])


def sample_size(alpha: float) -> int:
    """How many episodes an estimate at level α wants."""
    return math.ceil(TAIL_EPISODES / alpha)


def quiet_cvar(sample: Tensor, alpha: float) -> float:
    """CVaR of a sample that may be too small for α: at the start every sample is, and ``warn/thin_tail`` says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)
        return float(cvar_from_samples(sample, alpha))


def _quiet_tail(sample: Tensor, alpha: float) -> Tail:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)
        return tail_of(sample, alpha)
