"""Evaluation in envs that step together: one seed, an equal share of episodes for each, none preferred."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from surefoot import PPO
from surefoot.errors import ConfigError, NonFiniteError
from surefoot.evaluate.episodes import Evaluation, Seen, play
from surefoot.evaluate.together import play_together
from surefoot.spaces import Array
from surefoot.vector.group import EnvGroup
from surefoot.vector.gymnasium_vector import VectorEnvs
from train.agents import ROWS, SMALL, small
from vector.trams import OWN_TRAM, TRAM, TramCar, Trams, register_trams
from vector.worlds import Clockwork

register_trams()
MODES = ("SAME_STEP", "NEXT_STEP", "DISABLED")
every_mode = pytest.mark.parametrize("mode", MODES)


def ride(seen: Seen) -> Array:
    return np.ones(len(seen.rows), np.int64)


def by_turns(seen: Seen) -> Array:
    """An action that depends on what is seen alone."""
    return (np.round(seen.observation["obs"][:, 0] * 5) % 2).astype(np.int64)


def one_by_one(env: Trams, n_episodes: int, seed: int) -> list[list[float]]:
    """The slow twin: returns of each env's episodes, as many as it plays, read from the true transitions."""
    envs = VectorEnvs(env)
    envs.reset(seed)
    found: list[list[float]] = [[] for _ in range(envs.n_envs)]
    totals = [0.0] * envs.n_envs
    share = [n_episodes // envs.n_envs + (i < n_episodes % envs.n_envs) for i in range(envs.n_envs)]
    while any(len(found[i]) < share[i] for i in range(envs.n_envs)):
        step = envs.step(np.ones(envs.n_envs, np.int64))
        for i in range(envs.n_envs):
            totals[i] += float(step.reward[i])
            if step.terminated[i] or step.truncated[i]:
                found[i].append(totals[i])
                totals[i] = 0.0
    return [returns[: share[i]] for i, returns in enumerate(found)]


@every_mode
@pytest.mark.parametrize(("n_envs", "n_episodes"), [(1, 3), (4, 4), (4, 10), (4, 3), (7, 30)])
def test_each_env_plays_its_share(mode: str, n_envs: int, n_episodes: int) -> None:
    make = partial(Trams, n_envs, short=True, mode=mode)
    found = play_together(VectorEnvs(make()), ride, n_episodes, seed=3)
    assert len(found.returns) == n_episodes
    for i, expected in enumerate(one_by_one(make(), n_episodes, seed=3)):
        assert found.returns[i::n_envs] == pytest.approx(expected)
    assert [r > 0 for r in found.returns] == [length == 5 for length in found.lengths]
    assert found.successes == (True,) * n_episodes


@every_mode
def test_short_episodes_are_not_preferred(mode: str) -> None:
    """Half of the rides are short, and pay nothing. Counting the first that end would find nearly all of them short."""
    found = play_together(VectorEnvs(Trams(500, length=20, short=True, mode=mode)), ride, 1000, seed=0)
    share = np.mean([length == 1 for length in found.lengths])
    assert share == pytest.approx(0.5, abs=0.06)  # four standard errors


@every_mode
@pytest.mark.parametrize("n_envs", [1, 3, 8])
def test_a_deterministic_world_gives_what_single_envs_give(mode: str, n_envs: int) -> None:
    single = play(EnvGroup([TramCar() for _ in range(3)]), by_turns, 10, seed=0)
    assert play_together(VectorEnvs(Trams(n_envs, mode=mode)), by_turns, 10, seed=0) == single
    # stops 1 to 5; the action is the number of the stop before it, odd or even
    assert single.returns == (2.0 + 4.0,) * 10


def test_equal_seeds_give_equal_results() -> None:
    def found(seed: int) -> Evaluation:
        return play_together(VectorEnvs(Trams(50, short=True)), ride, 120, seed)

    assert found(1) == found(1)
    assert found(1).lengths != found(2).lengths


@every_mode
def test_rows_that_begin_an_episode_are_marked(mode: str) -> None:
    marked: list[bool] = []

    def watch(seen: Seen) -> Array:
        marked.append(bool(seen.start[0]))
        return ride(seen)

    play_together(VectorEnvs(Trams(2, length=2, mode=mode)), watch, 4, seed=0)
    expected = [True, False, True, False]
    if mode == "NEXT_STEP":  # the row that carries the reset is no start: what it leads to is
        expected = [True, False, True, True, False]
    assert marked == expected


def test_a_number_that_is_not_finite_is_named_with_its_env() -> None:
    class Breaks(Clockwork):
        def step(self, actions: Any) -> Any:
            observation, reward, *rest = super().step(actions)
            reward[1] = np.nan
            return observation, reward, *rest

    with pytest.raises(NonFiniteError, match=r"reward is nan in env 1 at step 0"):
        play_together(VectorEnvs(Breaks()), ride, 2, seed=0)


@pytest.mark.parametrize(("n_episodes", "seed", "word"), [(0, 0, "n_episodes"), (1, -1, "seed")])
def test_wrong_numbers_are_refused(n_episodes: int, seed: int, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        play_together(VectorEnvs(Trams(2)), ride, n_episodes, seed)


@pytest.fixture(scope="module")
def agent() -> Iterator[PPO]:
    found = PPO(Trams(4), **SMALL, normalize_observations=True).learn(4 * ROWS)
    yield found
    found.close()


def test_an_agent_is_evaluated_in_a_given_vector_env(agent: PPO) -> None:
    env = Trams(3)
    together = agent.evaluate(10, seed=1, env=env)
    assert together == agent.evaluate(10, seed=1, env=TramCar)  # deterministic world and actions
    assert env.closed_times == 0
    assert agent.evaluate(10, seed=1, env=env) == together


def test_sampled_actions_in_a_vector_env_are_reproducible(agent: PPO) -> None:
    once = agent.evaluate(50, seed=1, env=Trams(5), deterministic=False)
    assert agent.evaluate(50, seed=1, env=Trams(5), deterministic=False) == once
    assert agent.evaluate(50, seed=2, env=Trams(5), deterministic=False) != once


def test_a_vector_env_that_is_trained_in_is_not_stepped(agent: PPO) -> None:
    with pytest.raises(Exception, match=r"evaluate\(env=…\)"):  # and this one has no recipe to make another of
        agent.evaluate(2, env=agent._env)


def test_memory_in_a_vector_env_begins_anew_with_each_episode() -> None:
    agent = small(TramCar, memory={"kind": "gru", "hidden_size": 8}).learn(2 * ROWS)
    alone = agent.evaluate(6, env=TramCar())
    assert len(set(alone.returns)) == 1
    for mode in MODES:
        assert agent.evaluate(6, env=Trams(2, mode=mode)) == alone


def test_ids_of_our_own_are_evaluated_together() -> None:
    agent = PPO(OWN_TRAM, **SMALL, n_envs=2)
    Trams.made = 0
    found = agent.evaluate(5, seed=3)
    assert Trams.made == 1
    assert found == agent.evaluate(5, seed=3, env=TramCar)
    agent.evaluate(5, seed=4)
    assert Trams.made == 1, "the envs are kept"
    assert agent.evaluate(2000).lengths == (5,) * 2000
    assert Trams.made == 2
    agent.close()


def test_a_sync_vector_env_is_played_as_it_is(agent: PPO) -> None:
    env = SyncVectorEnv([TramCar] * 3)
    assert agent.evaluate(7, env=env) == agent.evaluate(7, env=TramCar)
    env.close()


def test_arguments_go_over_those_of_training() -> None:
    agent = small(TRAM, env_kwargs={"length": 4, "fare": 0.5})
    assert agent.evaluate(1).lengths == (4,)
    assert agent.evaluate(1, env_kwargs={"length": 3}).lengths == (3,)
    assert agent.evaluate(1, env=TRAM, env_kwargs={"fare": 2.0}).lengths == (4,)
    assert agent.evaluate(1, env=OWN_TRAM, env_kwargs={"fare": 2.0}).lengths == (5,), "another env has its own"
    with pytest.raises(ConfigError, match="env_kwargs"):
        agent.evaluate(1, env=TramCar(), env_kwargs={"length": 3})


def test_a_hundred_thousand_episodes_are_quick(agent: PPO) -> None:
    """Bookkeeping without a loop over envs: counted in calls, which do not depend on the machine."""
    calls = 0

    def count(seen: Seen) -> Array:
        nonlocal calls
        calls += 1
        return ride(seen)

    found = play_together(VectorEnvs(Trams(2000, length=2)), count, 100_000, seed=0)
    assert len(found.returns) == 100_000
    assert calls == 100
