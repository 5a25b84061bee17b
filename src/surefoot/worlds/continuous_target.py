"""Point at the target: the right action is a vector of reals that can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]


class ContinuousTarget(ToyEnv[Array, Array]):
    """Each step shows a target uniform in [−1, 1]ⁿ; the reward is −mean((action − target)²).

    Episodes are cut (truncated) after `episode_length` steps. The optimum is 0. The uniformly random action
    earns −(1/3 + 1/3) per step, the two variances; always answering 0 earns −1/3, a score of 0.5.
    """

    changing = ("target", "steps")

    def __init__(self, n_dims: int = 1, episode_length: int = 32) -> None:
        self._n_dims = n_dims
        self._episode_length = episode_length
        self._target = np.zeros(n_dims, np.float32)
        self._steps = 0
        self.action_space = spaces.Box(-1.0, 1.0, (n_dims,), np.float32)
        self.observation_space = spaces.Box(-1.0, 1.0, (n_dims,), np.float32)
        self.optimal_return = 0.0
        self.random_return = -2.0 / 3.0 * episode_length

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        error = action - self._target
        reward = -float(error @ error) / self._n_dims
        self._steps += 1
        return self._draw(), reward, False, self._steps >= self._episode_length, {}

    def _draw(self) -> Array:
        self._target = self.np_random.uniform(-1.0, 1.0, self._n_dims).astype(np.float32)
        return self._target.copy()
