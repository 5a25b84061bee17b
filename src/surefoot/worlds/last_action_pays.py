"""Only the last action pays, in the step that ends the episode (A10)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]


class LastActionPays(ToyEnv[Array, np.int64]):
    """Each step shows a cue; the answer to the cue of the last step pays 1 if right, and terminates.

    The observation [n_actions + 1] is the cue as one-hot and a flag that is 1 at the last step. A learner
    that drops the reward of the ending step, or credits it to another step, sees no reward that depends on
    its action. The optimum is 1, random is 1/n_actions.
    """

    changing = ("cue", "steps")

    def __init__(self, n_actions: int = 3, episode_length: int = 4) -> None:
        self._n_actions = n_actions
        self._episode_length = episode_length
        self._cue = 0
        self._steps = 0
        self.action_space = spaces.Discrete(n_actions)
        self.observation_space = spaces.Box(0.0, 1.0, (n_actions + 1,), np.float32)
        self.optimal_return = 1.0
        self.random_return = 1.0 / n_actions

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        terminated = self._steps >= self._episode_length
        reward = float(terminated and action == self._cue)
        return self._draw(), reward, terminated, False, {}

    def _draw(self) -> Array:
        self._cue = int(self.np_random.integers(self._n_actions))
        observation = np.zeros(self._n_actions + 1, np.float32)
        observation[self._cue] = 1.0
        observation[-1] = float(self._steps == self._episode_length - 1)
        return observation
