"""A short walk along a cliff in the wind, and a longer one inland."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.return_distribution import ReturnDistribution
from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]

FORWARD, INLAND, EDGE = 0, 1, 2
"""Walk one column on; go to the inner lane, or to the one at the edge (or stay there)."""

Place = tuple[int, int]
"""Lane (0 at the edge, 1 inland) and column."""


class WindyCliff(ToyEnv[Array, np.int64]):
    """Two lanes of ``n_columns``; from one end of the lane at the edge to the other, −1 per step.

    After each move the wind blows with probability ``wind``, but for the first and the last column: from inland to the
    edge, and from the edge over it, which costs ``fall`` and terminates. After ``time_limit`` steps the episode is
    truncated. Observed is the place, as one-hot.

    Along the edge it takes n − 1 steps; inland two more, and now and then another one to get back there. With the
    default numbers the edge has the higher mean and inland by far the better tail.

    *The answers.* The return is a function of the number of steps and of the fall, so that the distribution of any
    policy, the best mean and the best feasible mean are found exactly by going through (place, step), in
    `return_distribution` and `best_return`.
    """

    changing = ("place", "steps")

    def __init__(self, n_columns: int = 5, wind: float = 0.05, fall: float = 8.0, time_limit: int = 12) -> None:
        self._n, self._wind, self._fall, self._time_limit = n_columns, wind, fall, time_limit
        self._place: Place = (0, 0)
        self._steps = 0
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(0.0, 1.0, (2 * n_columns,), np.float32)
        self.optimal_return = self._best_utility(0.0, 0.0)
        self.random_return = self.return_distribution(dict.fromkeys(self.places(), (1 / 3, 1 / 3, 1 / 3))).mean

    def places(self) -> list[Place]:
        """All that one can act from: every place but the goal."""
        return [(lane, column) for lane in (0, 1) for column in range(self._n) if not self._is_goal((lane, column))]

    def observation_at(self, place: Place) -> Array:
        """What is seen at a place."""
        one_hot = np.zeros(2 * self._n, np.float32)
        one_hot[place[0] * self._n + place[1]] = 1.0
        return one_hot

    def return_distribution(self, policy: dict[Place, tuple[float, float, float]]) -> ReturnDistribution:
        """Of the return of a policy that takes action i at a place with probability ``policy[place][i]``."""
        found: dict[float, float] = {}
        here: dict[Place, float] = {(0, 0): 1.0}
        for step in range(1, self._time_limit + 1):
            there: dict[Place, float] = {}
            for place, mass in here.items():
                for action, choice in enumerate(policy[place]):
                    for successor, p in self._outcomes(place, action):
                        ends = successor is None or self._is_goal(successor) or step == self._time_limit
                        value = -step - (self._fall if successor is None else 0.0)
                        if ends:
                            found[value] = found.get(value, 0.0) + mass * choice * p
                        elif successor is not None:
                            there[successor] = there.get(successor, 0.0) + mass * choice * p
            here = there
        return ReturnDistribution(found)

    def best_return(self, alpha: float, limit: float) -> float:
        """Highest mean return of any policy, with or without memory and dice, whose CVaR_α is at least ``limit``.

        max over ν of min over λ ≥ 0 of max over policies of E[R] + λ·(ν + E[min(R − ν, 0)]/α − limit): for a given ν
        the constraint is linear in the distribution of R, so that the multiplier leaves no gap.
        """
        values = {-step - fall for step in range(1, self._time_limit + 1) for fall in (0.0, self._fall)}
        return max(self._dual_bound(threshold, alpha, limit) for threshold in values if threshold >= limit)

    def _dual_bound(self, threshold: float, alpha: float, limit: float) -> float:
        """Minimum over λ of a convex function, by ternary search; −inf if no policy satisfies the constraint."""

        def bound(multiplier: float) -> float:
            return self._best_utility(threshold, multiplier / alpha) + multiplier * (threshold - limit)

        low, high = 0.0, 1.0
        while bound(2.0 * high) < bound(high):
            high *= 2.0
            if high > 1e6:
                return -np.inf
        high *= 2.0
        for _ in range(60):
            left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
            low, high = (low, right) if bound(left) <= bound(right) else (left, high)
        return bound(0.5 * (low + high))

    def _best_utility(self, threshold: float, weight: float) -> float:
        """max over policies of E[R + weight·min(R − threshold, 0)]."""

        def utility(steps: int, fall: float) -> float:
            return -steps - fall + weight * min(-steps - fall - threshold, 0.0)

        later = dict.fromkeys(self.places(), utility(self._time_limit, 0.0))
        for step in range(self._time_limit, 0, -1):
            at_goal, over_the_edge = utility(step, 0.0), utility(step, self._fall)
            later = {
                place: max(
                    sum(
                        p * (over_the_edge if to is None else later.get(to, at_goal))
                        for to, p in self._outcomes(place, action)
                    )
                    for action in (FORWARD, INLAND, EDGE)
                )
                for place in self.places()
            }
        return later[0, 0]

    def _outcomes(self, place: Place, action: int) -> Iterator[tuple[Place | None, float]]:
        """Where a move may lead, and with what probability; None is over the edge."""
        lane, column = self._move(place, action)
        if not 0 < column < self._n - 1:
            yield (lane, column), 1.0
            return
        yield (lane, column), 1.0 - self._wind
        yield (0, column) if lane else None, self._wind

    def _move(self, place: Place, action: int) -> Place:
        lane, column = place
        if action == FORWARD:
            return lane, min(column + 1, self._n - 1)
        return (1 if action == INLAND else 0), column

    def _is_goal(self, place: Place) -> bool:
        return place == (0, self._n - 1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._place, self._steps = (0, 0), 0
        return self.observation_at(self._place), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        calm = self.np_random.random() >= self._wind
        outcomes = [to for to, _ in self._outcomes(self._place, int(action))]
        to = outcomes[0] if calm or len(outcomes) == 1 else outcomes[1]
        if to is None:
            return self.observation_at(self._place), -1.0 - self._fall, True, False, {}
        self._place = to
        truncated = self._steps >= self._time_limit
        return self.observation_at(to), -1.0, self._is_goal(to), truncated, {}
