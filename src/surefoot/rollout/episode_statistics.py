"""Returns, lengths, costs and successes of finished episodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.vector.guard import UNTOLD


class Episode(NamedTuple):
    """One finished episode, in raw rewards."""

    env: int
    total: float
    length: int
    cost: float
    success: bool | None


class Episodes(NamedTuple):
    """Episodes that ended in one step; all [E]."""

    env: NDArray[np.int64]
    total: NDArray[np.float64]
    length: NDArray[np.int64]
    cost: NDArray[np.float64]
    success: NDArray[np.int8]
    """1, 0, or `UNTOLD`."""

    def last(self, n: int) -> list[Episode]:
        """The last ``n`` of them, each for itself."""
        columns = (column[-n:].tolist() for column in self)
        return [
            Episode(env, total, length, cost, None if success == UNTOLD else bool(success))
            for env, total, length, cost, success in zip(*columns, strict=True)
        ]


class EpisodeTracker:
    """Adds up open episodes and keeps the last ``window`` finished ones."""

    def __init__(self, n_envs: int, window: int = 100) -> None:
        self.total = np.zeros(n_envs)
        self.length = np.zeros(n_envs, np.int64)
        self.cost = np.zeros(n_envs)
        self.window = window
        self.recent: deque[Episode] = deque(maxlen=window)
        self.finished = 0
        self.has_costs = False

    def step(self, reward: NDArray[np.float64], valid: NDArray[np.bool_], costs: NDArray[np.float64] | None) -> None:
        """Count one step of all envs."""
        self.total += reward
        self.length += valid
        if costs is not None:
            self.cost += costs
            self.has_costs = True

    def end(self, envs: NDArray[np.int64], successes: NDArray[np.int8]) -> Episodes:
        """The step just counted was the last of the episodes of some envs: these."""
        ended = Episodes(envs, self.total[envs], self.length[envs], self.cost[envs], successes)
        self.recent.extend(ended.last(self.window))
        self.finished += len(envs)
        self.drop_open(envs)
        return ended

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "total": self.total.tolist(),
            "length": self.length.tolist(),
            "cost": self.cost.tolist(),
            "recent": [list(episode) for episode in self.recent],
            "finished": self.finished,
            "has_costs": self.has_costs,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        self.total, self.cost = np.array(state["total"], float), np.array(state["cost"], float)
        self.length = np.array(state["length"], np.int64)
        self.recent = deque((Episode(*episode) for episode in state["recent"]), maxlen=self.window)
        self.finished, self.has_costs = int(state["finished"]), bool(state["has_costs"])

    def drop_open(self, envs: NDArray[np.bool_ | np.int64] | slice = slice(None)) -> None:
        """Forget the open episodes of some envs: these were started anew."""
        self.total[envs] = self.length[envs] = self.cost[envs] = 0

    def forget_open(self, n_envs: int) -> None:
        """All envs, now so many, start new episodes."""
        self.total, self.cost = np.zeros(n_envs), np.zeros(n_envs)
        self.length = np.zeros(n_envs, np.int64)

    def summary(self) -> dict[str, float]:
        """Means over the recent episodes; empty before the first has ended."""
        if not self.recent:
            return {}
        found = {
            "rollout/ep_rew_mean": float(np.mean([e.total for e in self.recent])),
            "rollout/ep_len_mean": float(np.mean([e.length for e in self.recent])),
            "rollout/episodes": float(self.finished),
        }
        if self.has_costs:
            found["rollout/ep_cost_mean"] = float(np.mean([e.cost for e in self.recent]))
        successes = [e.success for e in self.recent if e.success is not None]
        if successes:
            found["rollout/success_rate"] = float(np.mean(successes))
        return found
