"""Worlds that show what single options do."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class LongCorridor(gymnasium.Env[Any, Any]):
    """Cells in a row; only the last one pays, and each step may be taken the wrong way: a sparse reward."""

    N_CELLS, LIMIT = 16, 32
    observation_space = spaces.Box(0.0, 1.0, (N_CELLS,))
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._cell = self._steps = 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Each cell has its own action that leads on; the others lead back to the first."""
        self._steps += 1
        self._cell = self._cell + 1 if int(action) == self.right_action(self._cell) else 0
        arrived = self._cell == self.N_CELLS - 1
        return self._show(), float(arrived), arrived, self._steps == self.LIMIT, {"is_success": arrived}

    @staticmethod
    def right_action(cell: int) -> int:
        """Which action leads on."""
        return (cell * cell + cell // 3) % 3

    def _show(self) -> Any:
        return np.eye(self.N_CELLS, dtype=np.float32)[self._cell]


class NoisyHead(gymnasium.Env[Any, Any]):
    """A symbol out of four is shown on one of two sides, and should be named; each side has a choice of its own, and
    masks leave the other nothing to choose. Rewards of the second side are noisy. An episode is one step, so that the
    noise reaches the gradient of one head only."""

    observation_space = spaces.Box(0.0, 1.0, (8,))
    action_space = spaces.MultiDiscrete([4, 4])

    def __init__(self, noise: float, only_side: int | None = None) -> None:
        self._noise, self._only_side = noise, only_side

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._side, self._symbol = (int(x) for x in self.np_random.integers((2, 4)))
        self._side = self._side if self._only_side is None else self._only_side
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        noise = self._noise * self.np_random.normal() if self._side == 1 else 0.0
        return self._show(), float(action[self._side] == self._symbol) + noise, True, False, {}

    def action_masks(self) -> Any:
        mask = np.zeros((2, 4), bool)
        mask[:, 0] = True
        mask[self._side] = True
        return mask.reshape(-1)

    def _show(self) -> Any:
        return np.eye(8, dtype=np.float32)[4 * self._side + self._symbol]
