"""Say what you see: the right action is the observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.toy import ToyEnv


class _Say(ToyEnv[Any, Any]):
    """Each step draws K symbols, the k-th uniform on `sizes[k]` values; the reward is the share said right.

    Episodes are cut (truncated) after `episode_length` steps. The optimum is 1 per step, random mean(1/size).
    """

    changing = ("symbols", "steps")

    def __init__(
        self,
        sizes: Sequence[int],
        action_space: spaces.Space[Any],
        plain_observation_space: spaces.Space[Any],
        one_hot: bool,
        episode_length: int,
    ) -> None:
        self._sizes = np.array(sizes)
        self._width = int(self._sizes.sum())
        self._first = np.cumsum(self._sizes) - self._sizes
        self._one_hot = one_hot
        self._episode_length = episode_length
        self._symbols = np.zeros(len(sizes), np.int64)
        self._steps = 0
        self.action_space = action_space
        self.observation_space = (
            spaces.Box(0.0, 1.0, (self._width,), np.float32) if one_hot else plain_observation_space
        )
        self.optimal_return = float(episode_length)
        self.random_return = episode_length * float(np.mean(1.0 / self._sizes))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        said = np.reshape(action, -1)
        reward = np.count_nonzero(said == self._symbols) / len(self._symbols)
        self._steps += 1
        return self._draw(), reward, False, self._steps >= self._episode_length, {}

    def _draw(self) -> Any:
        self._symbols = (self.np_random.random(len(self._sizes)) * self._sizes).astype(np.int64)
        if self._one_hot:
            observation = np.zeros(self._width, np.float32)
            observation[self._first + self._symbols] = 1.0
            return observation
        if self.observation_space.shape == ():
            return self._symbols[0]
        return self._symbols.astype(self.observation_space.dtype)


class Identity(_Say):
    """One of n symbols (Discrete action); observed as one-hot [n], or as the Discrete symbol itself."""

    def __init__(self, n: int = 4, one_hot: bool = True, episode_length: int = 32) -> None:
        super().__init__([n], spaces.Discrete(n), spaces.Discrete(n), one_hot, episode_length)


class IdentityMulti(_Say):
    """Several symbols at once (MultiDiscrete action); observed as joined one-hots, or as MultiDiscrete."""

    def __init__(self, nvec: Sequence[int] = (3, 2, 4), one_hot: bool = True, episode_length: int = 32) -> None:
        space = spaces.MultiDiscrete(np.array(nvec))
        super().__init__(nvec, space, space, one_hot, episode_length)


class IdentityBinary(_Say):
    """n bits (MultiBinary action); observed as joined one-hots [2n], or as MultiBinary."""

    def __init__(self, n: int = 4, one_hot: bool = True, episode_length: int = 32) -> None:
        super().__init__([2] * n, spaces.MultiBinary(n), spaces.MultiBinary(n), one_hot, episode_length)
