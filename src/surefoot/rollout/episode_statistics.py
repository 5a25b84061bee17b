"""Returns, lengths, costs and successes of finished episodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Episode(NamedTuple):
    """One finished episode, in raw rewards."""

    env: int
    total: float
    length: int
    cost: float
    success: bool | None


class EpisodeTracker:
    """Adds up open episodes and keeps the last ``window`` finished ones."""

    def __init__(self, n_envs: int, window: int = 100) -> None:
        self.total = np.zeros(n_envs)
        self.length = np.zeros(n_envs, np.int64)
        self.cost = np.zeros(n_envs)
        self.recent: deque[Episode] = deque(maxlen=window)
        self.finished = 0
        self.has_costs = False

    def step(self, reward: NDArray[np.float64], valid: NDArray[np.bool_], costs: list[float] | None) -> None:
        """Count one step of all envs."""
        self.total += reward
        self.length += valid
        if costs is not None:
            self.cost += costs
            self.has_costs = True

    def end(self, done: NDArray[np.bool_], successes: Mapping[int, bool | None]) -> list[Episode]:
        """The step just counted was the last of some episodes: these."""
        ended = [
            Episode(env, float(self.total[env]), int(self.length[env]), float(self.cost[env]), successes.get(env))
            for env in np.flatnonzero(done).tolist()
        ]
        self.recent.extend(ended)
        self.finished += len(ended)
        self.drop_open(done)
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
        self.recent = deque((Episode(*episode) for episode in state["recent"]), maxlen=self.recent.maxlen)
        self.finished, self.has_costs = int(state["finished"]), bool(state["has_costs"])

    def drop_open(self, envs: NDArray[np.bool_] | slice = slice(None)) -> None:
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
