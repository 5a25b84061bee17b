"""A walk that pays for ever, cut by a clock: whoever takes the cut for the end learns to leave (A01)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]

LEAVE, WALK = 0, 1
ENTRANCE_FEE = 4.0
LEAVE_REWARD = 6.0


class Corridor(ToyEnv[Array, np.int64]):
    """`n_cells` in a row, observed as one-hot; an episode starts in cell 0, the entrance.

    Action 1 walks one cell to the right (in the last cell, on the spot) and pays 1; at the entrance it costs
    4 instead. Action 0 leaves and terminates: it pays 6, at the entrance nothing. After `time_limit` steps
    the episode is truncated. The clock is not part of the world: walking could go on for ever.

    *The optimum.* Under the discount γ = 0.95 walking is worth 1/(1 − γ) = 20 from any inner cell and
    −4 + 20γ = 15 from the entrance. Under **every** policy walking is the better action in every cell, as one
    can leave a step later: inside Q(walk) ≥ 1 + 6γ = 6.7 > 6, at the entrance Q(walk) ≥ −4 + 6γ = 1.7 > 0.
    So no local optimum stands in the way of a learner that bootstraps the truncated step with the value of
    its true successor.

    *The trap.* With as many steps as cells, the cut always falls in the last cell. Taken for a termination,
    it makes the last walk worth 1 < 6; bootstrapped with the next episode's first observation, 1 +
    γ·V(entrance), at most 3.9 < 6. Both learners leave in the last cell, to a value of 3.0 from the entrance,
    and think the last cell worth 6 instead of 20.

    *Measuring it.* Within the time limit leaving does earn more. So `optimal_return` and `random_return` are
    discounted returns without the limit: evaluate with `time_limit=400`, where the rest is under 1e-7.
    """

    discount = 0.95

    changing = ("cell", "steps")

    def __init__(self, n_cells: int = 4, time_limit: int = 4) -> None:
        self._n_cells = n_cells
        self._time_limit = time_limit
        self._cell = 0
        self._steps = 0
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(0.0, 1.0, (n_cells,), np.float32)
        self.optimal_return = -ENTRANCE_FEE + self.discount / (1.0 - self.discount)
        # Inside, V = ½(1 + γV) + ½·6.
        random_inside = 0.5 * (1.0 + LEAVE_REWARD) / (1.0 - 0.5 * self.discount)
        self.random_return = 0.5 * (-ENTRANCE_FEE + self.discount * random_inside)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._cell = 0
        self._steps = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        at_entrance = self._cell == 0
        self._steps += 1
        truncated = self._steps >= self._time_limit
        if action == LEAVE:
            return self._observe(), 0.0 if at_entrance else LEAVE_REWARD, True, truncated, {}
        self._cell = min(self._cell + 1, self._n_cells - 1)
        return self._observe(), -ENTRANCE_FEE if at_entrance else 1.0, False, truncated, {}

    def _observe(self) -> Array:
        one_hot = np.zeros(self._n_cells, np.float32)
        one_hot[self._cell] = 1.0
        return one_hot
