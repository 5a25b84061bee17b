"""An environment that breaks its contract on purpose, for tests of what happens then."""

from __future__ import annotations

from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium import spaces

Array = np.ndarray[Any, Any]

Fault = Literal["shape", "dtype", "bounds", "nan_observation", "inf_observation", "nan_reward", "inf_reward", "raise"]


class Broken(gymnasium.Env[Array, np.int64]):
    """Healthy but for `fault` at step `at_step` of every episode; step 0 is the reset, which has no reward.

    "shape", "dtype" and "bounds" give an observation that differs in this from the declared
    Box(−1, 1, (2,), float32); "raise" raises RuntimeError.
    """

    def __init__(self, fault: Fault, at_step: int = 3, episode_length: int = 16) -> None:
        if fault not in get_args(Fault):
            raise ValueError(f"fault={fault!r} is unknown; choose one of {', '.join(get_args(Fault))}")
        self._fault = fault
        self._at_step = at_step
        self._episode_length = episode_length
        self._steps = 0
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:  # gymnasium's
        self._steps += 1
        terminated = self._steps >= self._episode_length
        return self._observe(), self._reward(), terminated, False, {}

    def _observe(self) -> Array:
        observation = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        if self._steps != self._at_step:
            return observation
        match self._fault:
            case "shape":
                return np.zeros(3, np.float32)
            case "dtype":
                return observation.astype(np.float64)
            case "bounds":
                return np.full(2, 7.0, np.float32)
            case "nan_observation":
                observation[1] = np.nan
            case "inf_observation":
                observation[1] = np.inf
            case "raise":
                raise RuntimeError(f"broken on purpose at step {self._steps}")
        return observation

    def _reward(self) -> float:
        if self._steps == self._at_step and self._fault == "nan_reward":
            return float("nan")
        if self._steps == self._at_step and self._fault == "inf_reward":
            return float("inf")
        return 1.0
