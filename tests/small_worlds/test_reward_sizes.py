"""Rewards of any size are learned with the defaults (A07); `benchmarks/reward_scales.py` tries more of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

from surefoot import PPO
from surefoot.worlds import Identity

BEST = 0.95


class Paid(gymnasium.RewardWrapper[Any, Any]):
    """One of two symbols is to be said; one step makes an episode, and pays ``size`` if it is right."""

    def __init__(self, size: float) -> None:
        super().__init__(Identity(n=2, episode_length=1))
        self._size = size

    def reward(self, reward: Any) -> float:
        return self._size * float(reward)


@pytest.mark.parametrize(
    ("kind", "shared", "size"),
    [
        ("scalar", False, 1e6),
        ("scalar", True, 1e-6),
        ("quantile", False, 1e-6),
        ("categorical", True, 1e-6),
    ],
)
def test_one_bit_is_learned_whatever_it_pays(kind: str, shared: bool, size: float) -> None:
    agent = PPO(partial(Paid, size), n_envs=8, compile=False, critic={"kind": kind}, policy={"shared": shared})
    agent.learn(12_000, callback=lambda _, record: record.episodes["rollout/ep_rew_mean"] < BEST * size)  # False stops
    assert agent.logger_values["rollout/ep_rew_mean"] >= BEST * size
    assert agent.predict(np.eye(2, dtype=np.float32))[0].tolist() == [0, 1]


def test_the_unit_of_rewards_changes_nothing() -> None:
    """A power of two is exact, so the weights are equal bit for bit."""
    learned = []
    for size in (1.0, 2.0**20):
        agent = PPO(partial(Paid, size), n_envs=2, n_steps=32, n_epochs=2, compile=False).learn(256)
        learned.append(agent.learner.flat.values)
    assert learned[0].equal(learned[1])
