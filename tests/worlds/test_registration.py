"""Gymnasium ids of the toy worlds."""

from __future__ import annotations

import gymnasium
import pytest

from surefoot.worlds import ENTRY_POINTS, Bandit, ToyEnv, register_envs


@pytest.fixture(autouse=True)
def _registered() -> None:
    register_envs()


@pytest.mark.parametrize("env_id", ENTRY_POINTS)
def test_each_id_makes_its_world(env_id: str) -> None:
    env = gymnasium.make(env_id)
    assert isinstance(env.unwrapped, ToyEnv)
    assert type(env.unwrapped).__name__ in env_id
    env.reset(seed=0)
    env.step(env.action_space.sample())


def test_keyword_arguments_reach_the_world() -> None:
    env = gymnasium.make("surefoot/Bandit-v0", win_probabilities=(0.1, 0.2, 0.3))
    assert isinstance(env.unwrapped, Bandit)
    assert env.unwrapped.optimal_return == 0.3


def test_registering_twice_is_silent_and_keeps_the_first() -> None:
    before = {env_id: gymnasium.registry[env_id] for env_id in ENTRY_POINTS}
    register_envs()
    assert all(gymnasium.registry[env_id] is spec for env_id, spec in before.items())
