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


class Flipping(gymnasium.Env[Any, Any]):
    """A direction in a plane is shown, rotated by an angle that changes after every ``task_steps`` steps; the reward is
    how well the action points the same way. Old habits are wrong in each new task."""

    observation_space = spaces.Box(-2.0, 2.0, (8,))
    action_space = spaces.Box(-1.0, 1.0, (2,))

    def __init__(self, task_steps: int) -> None:
        self._task_steps, self._taken = task_steps, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        distance = float(np.square(np.asarray(action) - self._target).sum())
        self._steps += 1
        self._taken += 1
        return self._show(), 1.0 - distance, False, self._steps == 20, {}

    def _show(self) -> Any:
        task = np.random.default_rng(self._taken // self._task_steps)
        mixing = task.normal(size=(8, 2))
        self._target = self.np_random.uniform(-0.9, 0.9, 2)
        return np.tanh(mixing @ self._target).astype(np.float32)


class NoisyHead(gymnasium.Env[Any, Any]):
    """Two choices among four. The first should be the symbol that is shown. The second changes only how much noise
    there is in the reward, and by a little what is earned."""

    observation_space = spaces.Box(0.0, 1.0, (4,))
    action_space = spaces.MultiDiscrete([4, 4])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        noise = self.np_random.normal() * 5.0 * (1 + int(action[1]))
        earned = float(action[0] == self._symbol) + 0.05 * (3 - int(action[1])) / 3
        self._steps += 1
        return self._show(), earned + noise, False, self._steps == 16, {}

    def _show(self) -> Any:
        self._symbol = int(self.np_random.integers(4))
        return np.eye(4, dtype=np.float32)[self._symbol]
