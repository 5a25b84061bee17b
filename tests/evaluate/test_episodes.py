"""Evaluation: whole episodes with fixed seeds, the same result however and whenever it is asked for."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from surefoot import PPO
from surefoot.errors import ConfigError, EnvError, SurefootError
from surefoot.evaluate.episodes import Evaluation, Seen, play
from surefoot.spaces import Array
from surefoot.vector.group import EnvGroup
from surefoot.worlds import Bandit, Identity
from train.agents import ROWS, SMALL, Random, parameters, small


class Countdown(gymnasium.Env[Any, Any]):
    """Lasts 1 + seed % 5 steps; each pays the seed. Success if the seed is even."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, tells_success: bool = False) -> None:
        self._tells_success = tells_success
        self._seed = 0
        self._left = 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._seed = seed if seed is not None else 1000
        self._left = 1 + self._seed % 5
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        info = {"is_success": self._seed % 2 == 0} if self._tells_success else {}
        return np.zeros(1, np.float32), float(self._seed), self._left == 0, False, info


def still(seen: Seen) -> Array:
    return np.zeros(len(seen.rows), np.int64)


def group(n_envs: int, tells_success: bool = False) -> EnvGroup:
    return EnvGroup([Countdown(tells_success) for _ in range(n_envs)])


def test_episode_i_starts_from_seed_plus_i() -> None:
    found = play(group(2), still, 6, seed=10)
    # seed 10 lasts 1 step and pays 10, seed 11 lasts 2 and pays 22, …
    assert found.lengths == (1, 2, 3, 4, 5, 1)
    assert found.returns == (10.0, 22.0, 36.0, 52.0, 70.0, 15.0)


def test_rows_that_begin_an_episode_are_marked() -> None:
    marked: list[list[bool]] = []

    def watch(seen: Seen) -> Array:
        marked.append(seen.start.tolist())
        return still(seen)

    play(group(2), watch, 3, seed=10)
    # env 0 plays seed 10 for 1 step, then seed 12 for 3; env 1 plays seed 11 for 2 steps and is needed no more
    assert marked == [[True, True], [True, False], [False], [False]]


class Counted(Countdown):
    """Counts its resets."""

    resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        Counted.resets += 1
        return super().reset(seed=seed, options=options)


@pytest.mark.parametrize("n_envs", [1, 3, 8, 20])
def test_an_evaluation_resets_once_for_each_episode(n_envs: int) -> None:
    Counted.resets = 0
    play(EnvGroup([Counted() for _ in range(n_envs)]), still, 10, seed=3)
    assert Counted.resets == 10


@pytest.mark.parametrize("n_envs", [1, 2, 3, 8, 20])
def test_the_result_does_not_depend_on_the_number_of_envs(n_envs: int) -> None:
    assert play(group(n_envs, True), still, 7, seed=3) == play(group(1, True), still, 7, seed=3)


def test_successes_are_reported_if_every_episode_tells() -> None:
    assert play(group(2, True), still, 3, seed=0).successes == (True, False, True)
    assert play(group(2, True), still, 3, seed=0).summary()["success_rate"] == pytest.approx(2 / 3)
    assert play(group(2), still, 3, seed=0).successes == ()
    assert "success_rate" not in play(group(2), still, 3, seed=0).summary()


def test_the_summary_is_worked_out_by_hand() -> None:
    assert Evaluation((1.0, 3.0), (10, 20)).summary() == {
        "mean_reward": 2.0,
        "std_reward": 1.0,
        "min_reward": 1.0,
        "max_reward": 3.0,
        "mean_ep_length": 15.0,
        "episodes": 2,
    }


@pytest.mark.parametrize("n_episodes", [0, -1])
def test_no_episodes_are_refused(n_episodes: int) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        small().evaluate(n_episodes)


def test_a_negative_seed_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="seed"):
        small().evaluate(1, seed=-1)


def test_evaluation_is_reproducible() -> None:
    agent = small().learn(ROWS)
    assert agent.evaluate(5, seed=3) == agent.evaluate(5, seed=3)
    assert agent.evaluate(5, seed=3) != agent.evaluate(5, seed=4)
    assert agent.evaluate(3, seed=3).returns == agent.evaluate(5, seed=3).returns[:3]


def test_sampled_evaluation_is_reproducible() -> None:
    agent = small().learn(ROWS)
    assert agent.evaluate(5, seed=3, deterministic=False) == agent.evaluate(5, seed=3, deterministic=False)


def test_sampled_evaluation_samples() -> None:
    agent = small(Identity)  # untrained: a sampled answer is right one time in four
    assert agent.evaluate(20, deterministic=False).mean == pytest.approx(8.0, abs=1.5)


@pytest.mark.parametrize("env", ["CartPole-v1", Bandit, Random])
def test_evaluation_does_not_disturb_training(env: Any) -> None:
    quiet, evaluated = small(env, normalize_observations=True), small(env, normalize_observations=True)
    for _ in range(3):
        quiet.learn(ROWS)
        evaluated.learn(ROWS)
        evaluated.evaluate(3)
        evaluated.evaluate(3, deterministic=False)
    assert parameters(evaluated).equal(parameters(quiet))
    state, quiet_state = evaluated.learner.state_dict(), quiet.learner.state_dict()
    assert state.tensors.keys() == quiet_state.tensors.keys()
    assert all(tensor.equal(quiet_state.tensors[name]) for name, tensor in state.tensors.items())
    assert state.values == quiet_state.values


def test_evaluation_between_two_learns_of_a_given_env_uses_another_one() -> None:
    quiet, evaluated = (PPO(gymnasium.make("CartPole-v1"), **SMALL) for _ in range(2))
    quiet.learn(16).learn(16)
    evaluated.learn(16).evaluate(3)
    evaluated.learn(16)
    assert parameters(evaluated).equal(parameters(quiet))


def test_an_instance_without_a_recipe_needs_an_env_to_evaluate_on() -> None:
    agent = PPO(Random(), **SMALL).learn(16)
    with pytest.raises(EnvError, match=r"evaluate\(env=…\)"):
        agent.evaluate(2)
    assert agent.evaluate(2, env=Random()).lengths == (8, 8)
    assert agent.evaluate(2, env=Random).lengths == (8, 8)


def test_another_env_may_be_given() -> None:
    agent = small(lambda: Random(length=8)).learn(ROWS)
    assert agent.evaluate(3, env=lambda: Random(length=5)).lengths == (5, 5, 5)


def test_another_env_must_have_the_same_spaces() -> None:
    with pytest.raises(SurefootError, match="space"):
        small().learn(ROWS).evaluate(1, env="Acrobot-v1")


@pytest.mark.parametrize("mode", ["sync", None])
def test_an_agent_of_a_made_vector_env_evaluates_on_single_envs(mode: Any) -> None:
    agent = PPO(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode=mode), **SMALL).learn(ROWS)
    assert agent.evaluate(3, seed=1) == agent.evaluate(3, seed=1, env="CartPole-v1")


def test_an_agent_of_a_vector_env_without_a_recipe_says_what_to_do() -> None:
    agent = PPO(SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2), **SMALL).learn(ROWS)
    with pytest.raises(EnvError, match=r"evaluate\(env=…\)"):
        agent.evaluate(3, seed=1)
    assert agent.evaluate(3, seed=1, env="CartPole-v1") == agent.evaluate(3, seed=1, env="CartPole-v1")


def test_rewards_and_observations_are_raw_and_normalized_as_trained() -> None:
    agent = small("Pendulum-v1", normalize_observations=True, normalize_rewards=True).learn(4 * ROWS)
    found = agent.evaluate(2, seed=0)
    assert found.lengths == (200, 200)
    assert found.mean < -200  # in the env's own units, not in those of the normalizer


@pytest.mark.parametrize("fault", ["nan_reward", "nan_observation"])
def test_a_number_that_is_not_finite_is_named(fault: Any) -> None:
    from faults.broken import Broken

    agent = small(lambda: Broken("dtype"))
    with pytest.raises(SurefootError, match=r"(reward|observation).* nan"):
        agent.evaluate(1, env=lambda: Broken(fault))
