"""What networks see of an episode's return so far."""

from __future__ import annotations

import numpy as np
import pytest

from surefoot.vector.episode_context import LARGEST, EpisodeContext


def test_rewards_add_up_until_the_episode_ends() -> None:
    context = EpisodeContext(2, 1.0)
    valid = np.ones(2, np.bool_)
    context.step(np.array([1.0, 2.0]), valid, np.array([False, False]))
    context.step(np.array([3.0, 5.0]), valid, np.array([False, True]))
    assert context.running.tolist() == [4.0, 0.0]


def test_a_discounted_return_counts_later_rewards_less() -> None:
    """1 + ½·4 = 3, and the next reward counts a quarter."""
    context = EpisodeContext(1, 0.5)
    for reward in (1.0, 4.0):
        context.step(np.array([reward]), np.array([True]), np.array([False]))
    assert context.running.tolist() == [3.0]
    assert context.weight.tolist() == [0.25]
    context.set_unit(1.0, 2.0)
    assert context.columns().tolist() == [[1.0, 0.0, 0.25]]


def test_a_row_that_is_no_step_counts_nothing() -> None:
    context = EpisodeContext(1, 0.5)
    context.step(np.array([7.0]), np.array([False]), np.array([False]))
    assert (context.running.tolist(), context.weight.tolist()) == ([0.0], [1.0])


def test_it_is_seen_from_the_threshold_in_its_unit_with_the_bend_of_the_shortfall() -> None:
    context = EpisodeContext(3, 1.0)
    assert not context.columns().any()  # no unit yet
    context.running[:] = [0.0, 6.0, -1e9]
    context.set_unit(2.0, 4.0)
    assert context.columns().tolist() == [[-0.5, -0.5], [1.0, 0.0], [-LARGEST, -LARGEST]]


def test_following_the_rewards_of_some_envs_gives_what_stepping_all_gives() -> None:
    stepped, followed = EpisodeContext(2, 0.9), EpisodeContext(2, 0.9)
    rng, start = np.random.default_rng(0), np.ones(2, np.bool_)
    reward = np.zeros(2)
    for t in range(7):
        followed.update_rows(np.arange(2), reward, start)
        np.testing.assert_allclose(followed.running, stepped.running)
        np.testing.assert_allclose(followed.weight, stepped.weight)
        reward, start = rng.normal(size=2), np.array([t == 3, t == 5])
        stepped.step(reward, np.ones(2, np.bool_), start)


def test_what_is_loaded_is_of_as_many_envs_and_finite() -> None:
    context = EpisodeContext(2, 1.0)
    context.load_state_dict({"running": [1.0, 2.0], "weight": [1.0, 1.0]})
    assert context.running.tolist() == [1.0, 2.0]
    for wrong in ({"running": [1.0], "weight": [1.0]}, {"running": [1.0, float("inf")], "weight": [1.0, 1.0]}):
        with pytest.raises(ValueError, match="one finite number for each env"):
            context.load_state_dict(wrong)
