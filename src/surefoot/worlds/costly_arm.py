"""A choice between slow and harmless, and fast and sometimes harmful: rewards and costs apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]

SLOW, FAST = 0, 1


class CostlyArm(ToyEnv[Array, np.int64]):
    """``n_pulls`` choices: action 0 pays 1; action 1 pays 2 and harms with probability ``harm_probability``.

    A harm costs ``harm_cost``, told as ``info[cost_key]`` in every step. With a share x of fast choices the mean return
    is n·(1 + x) and the mean episode cost n·x·p·harm_cost: without a limit x = 1, and with a limit d on the mean cost
    of an episode x = d/(n·p·harm_cost), or 1 if that is less.
    """

    changing = ("pulls",)

    def __init__(
        self, n_pulls: int = 4, harm_probability: float = 0.5, harm_cost: float = 1.0, cost_key: str = "cost"
    ) -> None:
        self._n_pulls, self._p = n_pulls, harm_probability
        self._harm_cost, self._cost_key = harm_cost, cost_key
        self._pulls = 0
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.optimal_return = 2.0 * n_pulls
        self.random_return = 1.5 * n_pulls

    def mean_cost(self, share: float) -> float:
        """Of an episode, if a share of the choices is fast."""
        return self._n_pulls * share * self._p * self._harm_cost

    def best_share(self, limit: float) -> float:
        """The share of fast choices with the highest mean return among those with a mean cost of at most ``limit``."""
        return min(1.0, limit / self.mean_cost(1.0))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._pulls = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        harms = self.np_random.random() < self._p and action == FAST
        self._pulls += 1
        info = {self._cost_key: self._harm_cost if harms else 0.0}
        return self._observe(), 1.0 + float(action == FAST), self._pulls >= self._n_pulls, False, info

    def _observe(self) -> Array:
        return np.array([self._pulls / self._n_pulls], np.float32)
