"""The world of `reward_scales.py`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Saying(gym.Env[Any, Any]):
    """One of ``n`` symbols is observed as one-hot [n]; to say it pays ``size``. Episodes have ``length`` steps."""

    def __init__(self, n: int, length: int, size: float) -> None:
        self._length, self._size = length, size
        self._symbol, self._steps = 0, 0
        self._rows = np.eye(n, dtype=np.float32)
        self.observation_space = spaces.Box(0.0, 1.0, (n,), np.float32)
        self.action_space = spaces.Discrete(n)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self._size if int(action) == self._symbol else 0.0
        self._steps += 1
        return self._draw(), reward, self._steps >= self._length, False, {}

    def _draw(self) -> Any:
        self._symbol = int(self.np_random.integers(len(self._rows)))
        return self._rows[self._symbol].copy()
