"""The broken world breaks exactly what it says, exactly when it says."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest

from faults.broken import Broken, Fault

ACTION = np.int64(0)
OBSERVATION_FAULTS = ["shape", "dtype", "bounds", "nan_observation", "inf_observation"]


def walk_to(env: Broken, n_steps: int) -> tuple[Any, float]:
    """The observation and reward after `n_steps`, all before them being healthy."""
    observation, _ = env.reset(seed=0)
    reward = 0.0
    for _ in range(n_steps):
        assert env.observation_space.contains(observation)
        assert math.isfinite(reward)
        observation, reward, _, _, _ = env.step(ACTION)
    return observation, reward


@pytest.mark.parametrize("fault", OBSERVATION_FAULTS)
@pytest.mark.parametrize("at_step", [0, 3])
def test_the_observation_leaves_its_space_at_the_step(fault: Fault, at_step: int) -> None:
    observation, _ = walk_to(Broken(fault, at_step), at_step)
    assert not Broken(fault).observation_space.contains(np.asarray(observation))


def test_each_observation_fault_is_the_one_named() -> None:
    assert walk_to(Broken("shape"), 3)[0].shape == (3,)
    assert walk_to(Broken("dtype"), 3)[0].dtype == np.float64
    assert walk_to(Broken("bounds"), 3)[0].tolist() == [7.0, 7.0]
    assert math.isnan(walk_to(Broken("nan_observation"), 3)[0][1])
    assert math.isinf(walk_to(Broken("inf_observation"), 3)[0][1])


def test_each_reward_fault_is_the_one_named() -> None:
    assert math.isnan(walk_to(Broken("nan_reward"), 3)[1])
    assert math.isinf(walk_to(Broken("inf_reward"), 3)[1])


@pytest.mark.parametrize("at_step", [0, 1, 3])
def test_it_raises_in_reset_or_in_the_step(at_step: int) -> None:
    with pytest.raises(RuntimeError, match=f"broken on purpose at step {at_step}"):
        walk_to(Broken("raise", at_step), at_step)


@pytest.mark.parametrize("fault", get_args(Fault))
def test_it_is_healthy_until_a_step_that_never_comes(fault: Fault) -> None:
    observation, reward = walk_to(Broken(fault, at_step=17, episode_length=16), 16)
    assert Broken(fault).observation_space.contains(observation)
    assert reward == 1.0


def test_an_unknown_fault_is_refused() -> None:
    fault: Any = "smoke"
    with pytest.raises(ValueError, match="choose one of shape"):
        Broken(fault)
