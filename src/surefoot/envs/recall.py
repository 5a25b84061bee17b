"""Say what was shown first: worlds that need a memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.envs.toy import ToyEnv

Array = np.ndarray[Any, Any]


class Recall(ToyEnv[Array, np.int64]):
    """A symbol is shown, then `k` random ones that mean nothing, then a question: the answer that repeats the first
    symbol pays 1 and ends the episode.

    The observation [n_symbols + 2] is the symbol as one-hot (none with the question), whether it is the first, and
    whether it is the question. The optimum is 1; random, and every policy without memory, is 1/n_symbols.
    """

    def __init__(self, k: int = 5, n_symbols: int = 4) -> None:
        self._k, self._n_symbols = k, n_symbols
        self._first = 0
        self._steps = 0
        self.action_space = spaces.Discrete(n_symbols)
        self.observation_space = spaces.Box(0.0, 1.0, (n_symbols + 2,), np.float32)
        self.optimal_return = 1.0
        self.random_return = 1.0 / n_symbols

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        self._first = int(self.np_random.integers(self._n_symbols))
        return self._observe(self._first), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        is_answer = self._steps > self._k
        self._steps += 1
        symbol = int(self.np_random.integers(self._n_symbols)) if self._steps <= self._k else None
        return self._observe(symbol), float(is_answer and action == self._first), is_answer, False, {}

    def _observe(self, symbol: int | None) -> Array:
        observation = np.zeros(self._n_symbols + 2, np.float32)
        if symbol is not None:
            observation[symbol] = 1.0
        observation[-2] = float(self._steps == 0)
        observation[-1] = float(symbol is None)
        return observation

    def _world_state(self) -> dict[str, Any]:
        return {"first": self._first, "steps": self._steps}

    def _restore_world(self, world: dict[str, Any]) -> None:
        self._first = int(world["first"])
        self._steps = int(world["steps"])
