"""Say what was shown first: worlds that need a memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]


class Recall(ToyEnv[Array, np.int64]):
    """A symbol is shown, then `k` random ones that mean nothing, then a question: the answer that repeats the first
    symbol pays 1 and ends the episode.

    The observation [n_symbols + 2] is the symbol as one-hot (none with the question), whether it is the first, and
    whether it is the question. The optimum is 1; random, and every policy without memory, is 1/n_symbols.
    """

    changing = ("shown", "steps")

    def __init__(self, k: int = 5, n_symbols: int = 4) -> None:
        self._k, self._n_symbols = k, n_symbols
        self._shown: list[int] = []
        """What is seen in each step of the episode, as rows of `_views`."""
        self._steps = 0
        self.action_space = spaces.Discrete(n_symbols)
        self.observation_space = spaces.Box(0.0, 1.0, (n_symbols + 2,), np.float32)
        self.optimal_return = 1.0
        self.random_return = 1.0 / n_symbols
        # A symbol, each of them; then each as the first one; then the question.
        symbols = np.eye(n_symbols, n_symbols + 2, dtype=np.float32)
        first, question = np.eye(n_symbols + 2, dtype=np.float32)[[-2, -1]]
        self._views = np.concatenate([symbols, symbols + first, question[None]])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        first, *others = self.np_random.integers(self._n_symbols, size=self._k + 1).tolist()
        question = 2 * self._n_symbols
        self._shown = [self._n_symbols + first, *others, question, question]
        return self._views[self._shown[0]].copy(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        is_answer = self._steps > self._k
        self._steps += 1
        reward = float(is_answer and action == self._shown[0] - self._n_symbols)
        return self._views[self._shown[self._steps]].copy(), reward, is_answer, False, {}
