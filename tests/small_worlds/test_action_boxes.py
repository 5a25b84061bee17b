"""A box of any place and size is learned as well as [−1, 1] (P14)."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from surefoot import PPO

BOXES = {
    "usual": (-1.0, 1.0, 0.4),
    "far from 0": (100.0, 200.0, 170.0),
    "wide": (0.0, 1e4, 3000.0),
    "narrow": (0.0, 1e-3, 7e-4),
}
"""Low, high and target."""


class HitTarget(gymnasium.Env[Any, Any]):
    """One step; the reward is minus the squared distance from the target, in half-widths of the box."""

    def __init__(self, low: float, high: float, target: float) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(low, high, (1,), np.float32)
        self._target, self._half_width = target, 0.5 * (high - low)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        distance = (float(action[0]) - self._target) / self._half_width
        return np.ones(1, np.float32), -(distance**2), True, False, {}


@pytest.mark.parametrize("kind", ["gaussian", "tanh_gaussian", "beta"])
@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
def test_the_target_is_found_in_a_box_of_any_place_and_size(box: tuple[float, float, float], kind: str) -> None:
    low, high, target = box
    agent = PPO(
        partial(HitTarget, *box),
        n_envs=8,
        n_steps=32,
        batch_size=64,
        n_epochs=4,
        learning_rate=0.02,
        seed=0,
        compile=False,
        policy={"hidden_sizes": (8,), "distribution": kind},
    ).learn(4096)
    action, _ = agent.predict(np.ones(1, np.float32), deterministic=True)
    assert abs(float(action[0]) - target) < 0.05 * (high - low)
    sample, _ = agent.predict(np.ones((500, 1), np.float32))
    assert 0.0 < sample.std() < 0.2 * (high - low)
