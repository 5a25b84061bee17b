"""Slot machines: nothing to see, only which arm pays more often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]


class Bandit(ToyEnv[Array, np.int64]):
    """Arm i pays 1 with probability `win_probabilities[i]`, else 0; the episode terminates after `n_pulls`.

    The optimum is n_pulls × the best probability, random n_pulls × their mean.
    """

    changing = ("pulls",)

    def __init__(self, win_probabilities: Sequence[float] = (0.2, 0.8), n_pulls: int = 1) -> None:
        self._win_probabilities = list(win_probabilities)
        self._n_pulls = n_pulls
        self._pulls = 0
        self.action_space = spaces.Discrete(len(self._win_probabilities))
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.optimal_return = n_pulls * max(self._win_probabilities)
        self.random_return = n_pulls * float(np.mean(self._win_probabilities))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._pulls = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._pulls += 1
        reward = float(self.np_random.random() < self._win_probabilities[action])
        return np.zeros(1, np.float32), reward, self._pulls >= self._n_pulls, False, {}
