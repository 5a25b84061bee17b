"""A sign at the start of a corridor tells which way to turn at its end."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]

FORWARD, LEFT, RIGHT = range(3)


class TMaze(ToyEnv[Array, np.int64]):
    """Walk `length` steps forward, then turn as the sign at the start said (Bakker 2001,
    https://papers.nips.cc/paper/1953-reinforcement-learning-with-long-short-term-memory).

    The right turn at the junction pays 1, the wrong one 0; both terminate. Turning in the corridor and walking on at
    the junction do nothing. After `time_limit` steps (three times the shortest way by default) the episode is
    truncated. The observation [4] is the sign (left, right), seen at the start only; whether one is in the corridor;
    whether at the junction. The optimum is 1, the best policy without memory ½; the random return is that of a
    time-limited walk.
    """

    changing = ("place", "sign", "steps")

    def __init__(self, length: int = 10, time_limit: int | None = None) -> None:
        self._length = length
        self._time_limit = 3 * (length + 1) if time_limit is None else time_limit
        self._place = 0
        self._sign = LEFT
        self._steps = 0
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
        self.optimal_return = 1.0
        self.random_return = self._random_return()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._place = 0
        self._steps = 0
        self._sign = int(self.np_random.integers(LEFT, RIGHT + 1))
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        at_junction = self._place == self._length
        turns = bool(at_junction and action != FORWARD)
        if not at_junction and action == FORWARD:
            self._place += 1
        self._steps += 1
        return self._observe(), float(turns and action == self._sign), turns, self._steps >= self._time_limit, {}

    def _observe(self) -> Array:
        at_start = self._place == 0
        sign = [float(at_start and self._sign == turn) for turn in (LEFT, RIGHT)]
        at_junction = self._place == self._length
        return np.array([*sign, float(not at_junction), float(at_junction)], np.float32)

    def _random_return(self) -> float:
        """Half the chance of a turn at the junction within the time limit, each step forward with chance ⅓."""
        chances = np.zeros(self._length + 1)
        chances[0] = 1.0
        turned = 0.0
        for _ in range(self._time_limit):
            turned += chances[-1] * 2 / 3
            moved = chances / 3
            chances[:-1] -= moved[:-1]
            chances[-1] /= 3
            chances[1:] += moved[:-1]
        return turned / 2
