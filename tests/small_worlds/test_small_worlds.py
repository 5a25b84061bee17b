"""Worlds with a known optimum: the trained policy reaches 95 % of it on three seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from surefoot import PPO
from surefoot.worlds import Bandit, ContinuousTarget, Corridor, Identity, ToyEnv

THRESHOLD = 0.95
SETTINGS: dict[str, Any] = {
    "n_envs": 8,
    "n_steps": 32,
    "n_epochs": 6,
    "learning_rate": 0.01,
    "compile": False,
    "policy": {"hidden_sizes": (16,)},
}
seeds = pytest.mark.parametrize("seed", [0, 1, 2])


def discounted_return(agent: PPO, env: ToyEnv[Any, Any], seed: int, deterministic: bool = False) -> float:
    """Of one episode, under the world's own discount, by default with the exploration of training."""
    observation, _ = env.reset(seed=seed)
    total, weight, done = 0.0, 1.0, False
    while not done:
        action, _ = agent.predict(observation, deterministic=deterministic)
        observation, reward, terminated, truncated, _ = env.step(action)
        total += weight * float(reward)
        weight *= env.discount
        done = terminated or truncated
    return total


def mean_return(agent: PPO, env: ToyEnv[Any, Any], n_episodes: int) -> float:
    return float(np.mean([discounted_return(agent, env, 1000 + i) for i in range(n_episodes)]))


@seeds
def test_identity_is_learned(seed: int) -> None:
    agent = PPO(Identity, seed=seed, gamma=0.0, **SETTINGS).learn(2500)
    assert mean_return(agent, Identity(), 20) >= THRESHOLD * Identity().optimal_return


@seeds
def test_the_better_of_two_arms_is_found(seed: int) -> None:
    """By the expected return of the arms that are drawn, so that the luck of single pulls plays no part."""
    agent = PPO(Bandit, seed=seed, **SETTINGS).learn(2000)
    arms, _ = agent.predict(np.zeros((1000, 1)))
    assert np.array([0.2, 0.8])[arms].mean() >= THRESHOLD * Bandit().optimal_return


@seeds
def test_the_corridor_is_walked_beyond_its_truncation(seed: int) -> None:
    """A learner that takes the cut for an end, or the next episode's start for what follows, leaves for 3 of 15.

    Without exploration: the least of it ends a walk that should go on for ever.
    """
    agent = PPO(Corridor, seed=seed, gamma=Corridor.discount, **SETTINGS).learn(6000)
    unlimited = Corridor(time_limit=200)
    found = discounted_return(agent, unlimited, seed=0, deterministic=True)
    assert found >= THRESHOLD * unlimited.optimal_return


@seeds
def test_a_continuous_target_is_hit(seed: int) -> None:
    """The optimum is 0, so 95 % is measured on the way from the random policy to it."""
    agent = PPO(ContinuousTarget, seed=seed, gamma=0.0, **SETTINGS).learn(5000)
    world = ContinuousTarget()
    assert world.score(mean_return(agent, world, 20)) >= THRESHOLD
