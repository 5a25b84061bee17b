"""The corridor's argument, by dynamic programming: only right bootstrapping finds the optimum (A01)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from surefoot.worlds import Corridor

N_CELLS, TIME_LIMIT, GAMMA = 4, 4, Corridor.discount
LEAVE, WALK = np.int64(0), np.int64(1)

Array = np.ndarray[Any, Any]
Bootstrap = Callable[[Array, int], float]
"""What a truncated step's future is worth, from the values of the cells and the true successor."""


def true_successor(values: Array, successor: int) -> float:
    return float(values[successor])


def as_if_terminated(values: Array, successor: int) -> float:
    return 0.0


def next_first_observation(values: Array, successor: int) -> float:
    return float(values[0])


def rewards() -> Array:
    """[cell, action], as the world pays them."""
    table = np.zeros((N_CELLS, 2))
    for cell, action in itertools.product(range(N_CELLS), (LEAVE, WALK)):
        env = Corridor()
        env.reset()
        for _ in range(cell):
            env.step(WALK)
        table[cell, action] = env.step(action)[1]
    return table


REWARDS = rewards()


def action_values(values: Array, bootstrap: Bootstrap) -> Array:
    """Q [cell, action] as this learner sees it: cell c is met at time c, the last at the end."""
    q = REWARDS.copy()
    for cell in range(N_CELLS):
        successor = min(cell + 1, N_CELLS - 1)
        future = bootstrap if cell == TIME_LIMIT - 1 else true_successor
        q[cell, WALK] += GAMMA * future(values, successor)
    return q


def learned(bootstrap: Bootstrap) -> tuple[list[int], Array]:
    """Greedy policy and values at the fixed point of value iteration."""
    values = np.zeros(N_CELLS)
    for _ in range(1000):
        values = action_values(values, bootstrap).max(1)
    return action_values(values, bootstrap).argmax(1).tolist(), values


def discounted_return(policy: list[int], time_limit: int) -> float:
    env = Corridor(N_CELLS, time_limit)
    observation, _ = env.reset()
    total, weight, done = 0.0, 1.0, False
    while not done:
        action = np.int64(policy[int(np.argmax(observation))])
        observation, reward, terminated, truncated, _ = env.step(action)
        total += weight * reward
        weight *= GAMMA
        done = terminated or truncated
    return total


def test_the_true_successor_teaches_to_walk_on() -> None:
    policy, values = learned(true_successor)
    assert policy == [1, 1, 1, 1]
    assert values == pytest.approx([15.0, 20.0, 20.0, 20.0])
    assert discounted_return(policy, time_limit=400) == pytest.approx(Corridor().optimal_return) == 15.0


@pytest.mark.parametrize("bootstrap", [as_if_terminated, next_first_observation])
def test_a_wrong_bootstrap_teaches_to_leave_in_the_last_cell(bootstrap: Bootstrap) -> None:
    policy, values = learned(bootstrap)
    assert policy == [1, 1, 1, 0]
    assert values[-1] == 6.0
    wrong_return = discounted_return(policy, time_limit=400)
    assert wrong_return == pytest.approx(3.0, abs=0.01)
    assert Corridor().score(wrong_return) < 0.15


def test_walking_is_better_in_every_cell_under_every_policy_if_the_bootstrap_is_right() -> None:
    for walk_probability in itertools.product((0.0, 0.5, 1.0), repeat=N_CELLS):
        walk = np.array(walk_probability)
        values = np.zeros(N_CELLS)
        for _ in range(1000):
            q = action_values(values, true_successor)
            values = (1 - walk) * q[:, LEAVE] + walk * q[:, WALK]
        assert (q[:, WALK] - q[:, LEAVE] >= 0.7 - 1e-9).all()


def test_the_cut_is_a_truncation_in_the_last_cell() -> None:
    env = Corridor()
    env.reset()
    for step in range(TIME_LIMIT):
        observation, _, terminated, truncated, _ = env.step(WALK)
        assert not terminated
        assert truncated == (step == TIME_LIMIT - 1)
    assert observation.tolist() == [0, 0, 0, 1]
