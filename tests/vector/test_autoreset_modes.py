"""However environments reset themselves, a rollout holds the same transitions (A01, A02, A03)."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import Env, spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from algo.building import estimates_of, learner_on, values_of
from surefoot.algo.learner import Learner
from surefoot.errors import EnvError, NonFiniteError
from surefoot.rollout.buffer import Rollout
from surefoot.vector.gymnasium_vector import VectorEnvs
from surefoot.vector.interface import Envs
from vector.worlds import (
    KINDS,
    SCRIPT,
    SOURCES,
    Clockwork,
    Ending,
    Factory,
    Kind,
    Scripted,
    located,
    observation_at,
    open_envs,
    reward_at,
)

GAMMA, LAMBDA = 0.9, 0.8
N_ENVS, N_STEPS = 3, 32
N_EPISODES = 7
"""So many episodes of each env end within a rollout, in every mode."""

Place = tuple[int, int, int]
every_source = pytest.mark.parametrize("source", SOURCES)
every_kind = pytest.mark.parametrize("kind", KINDS)


def rotated(number: int) -> tuple[Ending, ...]:
    """Each env has its own order of episodes, so that they end at different times."""
    return (*SCRIPT[number:], *SCRIPT[:number])


def scripted(source: str, kind: Kind = "box", **options: Any) -> Envs:
    factories = [partial(Scripted, n, rotated(n), kind, **options) for n in range(N_ENVS)]
    return open_envs(source, factories)


def scripted_learner(envs: Envs, **settings: Any) -> Learner:
    settings = {
        "n_steps": N_STEPS,
        "batch_size": 32,
        "n_epochs": 2,
        "gamma": GAMMA,
        "gae_lambda": LAMBDA,
        "normalize_advantage": "none",
    } | settings
    return learner_on(envs, **settings)


def advantages_by_place(learner: Learner, rollout: Rollout, kind: Kind) -> dict[Place, float]:
    """The advantage of each transition, by (env, episode, step) as its observation says."""
    estimates = estimates_of(learner, rollout)
    found: dict[Place, float] = {}
    for t, n in torch.nonzero(rollout.valid).tolist():
        place = located(kind, {name: x[t, n] for name, x in rollout.observation.items()})
        assert place not in found
        assert place[0] == n
        found[place] = float(estimates.advantages[t, n])
    return found


def value(learner: Learner, kind: Kind, place: Place) -> float:
    leaves = learner.envs.layout.split(observation_at(kind, *place))
    with torch.no_grad():
        prediction = learner.policy.prediction({name: torch.as_tensor(x)[None] for name, x in leaves.items()})
    return float(learner.policy.critic.mean(prediction))


def advantages_of_episode(learner: Learner, kind: Kind, number: int, episode: int) -> dict[Place, float]:
    """GAE over one whole episode, written out."""
    ending = rotated(number)[episode % len(SCRIPT)]
    found: dict[Place, float] = {}
    following = 0.0
    for step in reversed(range(ending.length)):
        here, there = (value(learner, kind, (number, episode, step + ahead)) for ahead in (0, 1))
        is_last = step == ending.length - 1
        future = 0.0 if is_last and ending.terminated else there
        delta = reward_at(number, episode, step) + GAMMA * future - here
        following = delta if is_last else delta + GAMMA * LAMBDA * following
        found[number, episode, step] = following
    return found


def whole_episodes(learner: Learner, kind: Kind) -> dict[Place, float]:
    found: dict[Place, float] = {}
    for number in range(N_ENVS):
        for episode in range(N_EPISODES):
            found |= advantages_of_episode(learner, kind, number, episode)
    return found


@every_source
@every_kind
def test_advantages_are_those_of_the_episodes(source: str, kind: Kind) -> None:
    learner = scripted_learner(scripted(source, kind))
    found = advantages_by_place(learner, learner.collect(), kind)
    assert all(step < rotated(number)[episode % len(SCRIPT)].length for number, episode, step in found)
    expected = whole_episodes(learner, kind)
    assert {place: found[place] for place in expected} == pytest.approx(expected, abs=1e-4)


@every_source
def test_a_rollout_that_ends_with_an_episode_bootstraps_from_its_final_observation(source: str) -> None:
    script = (Ending(4, False, True),)
    learner = scripted_learner(open_envs(source, [partial(Scripted, 0, script)]), n_steps=4, batch_size=4)
    found = advantages_by_place(learner, learner.collect(), "box")
    last, final = value(learner, "box", (0, 0, 3)), value(learner, "box", (0, 0, 4))
    assert found[0, 0, 3] == pytest.approx(reward_at(0, 0, 3) + GAMMA * final - last, abs=1e-5)


@every_source
def test_a_rollout_cut_in_mid_episode_bootstraps_from_what_comes_next(source: str) -> None:
    script = (Ending(9, True, False),)
    learner = scripted_learner(open_envs(source, [partial(Scripted, 0, script)]), n_steps=4, batch_size=4)
    found = advantages_by_place(learner, learner.collect(), "box")
    last, following = value(learner, "box", (0, 0, 3)), value(learner, "box", (0, 0, 4))
    assert found[0, 0, 3] == pytest.approx(reward_at(0, 0, 3) + GAMMA * following - last, abs=1e-5)


def test_worker_processes_of_gymnasium_give_the_same_advantages() -> None:
    factories = [partial(Scripted, n, rotated(n), "dict") for n in range(N_ENVS)]
    envs = VectorEnvs(AsyncVectorEnv(factories, autoreset_mode=AutoresetMode.SAME_STEP, context="spawn"))
    try:
        learner = scripted_learner(envs)
        found = advantages_by_place(learner, learner.collect(), "dict")
        expected = whole_episodes(learner, "dict")
        assert {place: found[place] for place in expected} == pytest.approx(expected, abs=1e-4)
    finally:
        envs.close()


@every_source
def test_another_next_episode_changes_no_advantage_of_this_one(source: str) -> None:
    """A02, bit for bit."""
    found = []
    for number, length in ((0, 4), (2, 2)):
        scripts = [(SCRIPT[1], Ending(4, False, True)), (SCRIPT[1], Ending(length, True, False))]
        # Env 1 plays another second episode; its number, which decides its rewards, changes then too.
        factories: list[Factory] = [partial(Scripted, 0, scripts[0]), partial(Renumbered, number, scripts[1])]
        learner = scripted_learner(open_envs(source, factories), n_steps=16)
        rollout = learner.collect()
        estimates = estimates_of(learner, rollout)
        found.append((estimates.advantages[:5, 1], estimates.advantages[:, 0], estimates.advantages[5:, 1]))
    (first, neighbour, rest), (first_again, neighbour_again, other_rest) = found
    assert torch.equal(first, first_again)
    assert torch.equal(neighbour, neighbour_again)
    assert not torch.equal(rest, other_rest)


class Renumbered(Scripted):
    """Env 1 in its first episode, another env from then on."""

    def __init__(self, later: int, script: tuple[Ending, ...]) -> None:
        super().__init__(1, script)
        self._later = later

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self._episode == 0:
            self._number = self._later
        return super().reset(seed=seed, options=options)


@every_source
def test_only_transitions_are_counted(source: str) -> None:
    """Steps, episode statistics and both normalizers (A03)."""
    settings = {"normalize_observations": True, "normalize_rewards": True}
    learner = scripted_learner(scripted(source, cost=0.5), **settings)
    n_resets = 0
    seen: list[np.ndarray[Any, Any]] = []
    rewards: list[float] = []
    for _ in range(2):
        rollout = learner.collect()
        valid = rollout.valid.numpy()
        n_resets += int((~valid).sum())
        rewards += rollout.reward[rollout.valid].tolist()
        learner.learn(rollout, 2)
    n_transitions = 2 * N_ENVS * N_STEPS - n_resets
    assert (n_resets > 20) == (source == "next-step")
    assert learner.timesteps == n_transitions == len(rewards)
    assert learner.observations is not None
    assert learner.rewards is not None
    moments = learner.observations.moments["obs"]
    assert float(moments.count) == n_transitions
    assert float(learner.rewards.moments.count) == n_transitions
    # What was acted upon, played again by hand.
    for number in range(N_ENVS):
        seen += observations_acted_upon(number, n_transitions_of(learner, number))
    assert moments.mean.numpy() == pytest.approx(np.mean(seen, 0), rel=1e-6)
    assert moments.std.numpy() == pytest.approx(np.std(seen, 0), rel=1e-6)


def n_transitions_of(learner: Learner, number: int) -> int:
    """Steps that an env has made: those of its finished episodes and of the open one."""
    tracker = learner.collector.episodes
    return sum(e.length for e in tracker.recent if e.env == number) + int(tracker.length[number])


def observations_acted_upon(number: int, n_steps: int) -> list[np.ndarray[Any, Any]]:
    script, seen = rotated(number), []
    episode = step = 0
    for _ in range(n_steps):
        seen.append(observation_at("box", number, episode, step))
        step += 1
        if step == script[episode % len(script)].length:
            episode, step = episode + 1, 0
    return seen


@every_source
def test_episode_statistics_do_not_depend_on_the_mode(source: str) -> None:
    learner = scripted_learner(scripted(source, cost=0.5))
    learner.collect()
    by_env = defaultdict(list)
    for episode in learner.collector.episodes.recent:
        by_env[episode.env].append(episode)
    for number in range(N_ENVS):
        for k, episode in enumerate(by_env[number][:N_EPISODES]):
            length = rotated(number)[k % len(SCRIPT)].length
            assert episode.length == length
            assert episode.total == pytest.approx(sum(reward_at(number, k, step) for step in range(length)))
            assert episode.cost == 0.5 * length
            assert episode.success is (k % 2 == 0)


def test_what_stands_in_reset_rows_does_not_matter() -> None:
    found = []
    for disturbed in (False, True):
        learner = scripted_learner(scripted("next-step"), normalize_advantage="rollout", normalize_rewards=True)
        rollout = learner.collect()
        reset = ~rollout.valid
        assert reset.sum() > 10
        if disturbed:
            rollout.reward[reset] = 1e9
            rollout.log_prob[reset] = -3.0
            rollout.action[reset] = 1 - rollout.action[reset]
            rollout.observation["obs"][:-1][reset] = 7.0
        record = learner.learn(rollout, 1).update
        found.append((values_of(learner), record.loss, record.entropy_max, record.log_ratio_max, record.advantage_max))
    (values, *numbers), (same_values, *same_numbers) = found
    assert torch.equal(values, same_values)
    assert numbers == same_numbers


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_log_probability_that_is_not_finite_in_a_reset_row_does_not_matter(bad: float) -> None:
    found = []
    for log_prob in (-0.7, bad):
        learner = scripted_learner(scripted("next-step"))
        rollout = learner.collect()
        rollout.log_prob[~rollout.valid] = log_prob
        record = learner.learn(rollout, 1).update
        found.append((values_of(learner), (record.skipped_steps, record.kl, record.log_ratio_mean, record.loss)))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_a_rollout_of_reset_rows_only_moves_nothing() -> None:
    script = (Ending(2, True, False),)
    envs = open_envs("next-step", [partial(Scripted, n, script) for n in range(2)])
    learner = scripted_learner(envs, n_steps=1, batch_size=2, n_epochs=1)
    for expected in (2, 4):
        learner.learn(learner.collect(), 10)
        assert learner.timesteps == expected
    before = values_of(learner)
    record = learner.learn(learner.collect(), 10)
    assert record.timesteps == 0
    assert record.update.gradient_steps == 0
    assert torch.equal(values_of(learner), before)
    learner.learn(learner.collect(), 10)
    assert learner.timesteps == 6


def test_a_vector_env_that_does_not_say_its_mode_is_refused() -> None:
    env = Clockwork()
    env.metadata = {}
    with pytest.raises(EnvError, match=r"autoreset_mode.*Clockwork.*None.*NEXT_STEP"):
        VectorEnvs(env)


def test_a_mode_written_as_text_is_understood() -> None:
    env = Clockwork()
    env.metadata = {"autoreset_mode": "SameStep"}
    assert VectorEnvs(env).mode is AutoresetMode.SAME_STEP


def test_same_step_without_final_observation_is_an_error_that_says_so() -> None:
    env = Clockwork(length=3)
    env.gives_final = False
    envs = VectorEnvs(env)
    envs.reset(0)
    for _ in range(2):
        envs.step(np.zeros(2, np.int64))
    with pytest.raises(EnvError, match=r"Clockwork.*SAME_STEP.*step 3.*final_obs"):
        envs.step(np.zeros(2, np.int64))


@pytest.mark.parametrize(
    "final",
    [np.array([None, None], object), np.zeros((2, 5), np.float32)],
    ids=["nothing for a finished env", "of another shape"],
)
def test_a_final_observation_that_is_none_is_refused(final: Any) -> None:
    env = Clockwork(length=1)
    env.final = final
    learner = scripted_learner(VectorEnvs(env), n_steps=4, batch_size=8)
    with pytest.raises(EnvError, match="final_obs"):
        learner.collect()


def test_final_observations_outlive_the_buffer_that_they_came_in() -> None:
    learner = scripted_learner(VectorEnvs(Clockwork(num_envs=2, length=3)), n_steps=9, batch_size=18)
    rollout = learner.collect()
    places = zip(rollout.final.t.tolist(), rollout.final.env.tolist(), strict=True)
    found = dict(zip(places, rollout.final.observation["obs"].tolist(), strict=True))
    assert found == {(t, env): [env, t + 1] for t in (2, 5, 8) for env in (0, 1)}


def test_observations_outlive_the_buffer_that_they_came_in() -> None:
    envs = VectorEnvs(SyncVectorEnv([Scripted, Scripted], copy=False))
    first = envs.reset(0)
    second = envs.step(np.zeros(2, np.int64))
    envs.step(np.zeros(2, np.int64))
    assert first["obs"][:, 2].tolist() == [0.0, 0.0]
    assert second.observation["obs"][:, 2].tolist() == [1 / 8, 1 / 8]


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"temperature": 20.5}, [{"temperature": 20.5}] * 2),
        ({"weather": "rain"}, [{"weather": "rain"}] * 2),
        ({"speed": np.array([1.0, 2.0])}, [{"speed": 1.0}, {"speed": 2.0}]),
        ({"speed": np.array([1.0, 2.0]), "_speed": np.array([False, True])}, [{}, {"speed": 2.0}]),
        ({"deep": {"speed": np.array([1.0, 2.0])}}, [{"deep": {"speed": 1.0}}, {"deep": {"speed": 2.0}}]),
        ({"temperature": np.array(20.5)}, [{"temperature": 20.5}] * 2),
        ({"hours": np.array([1, 2, 3])}, [{"hours": [1, 2, 3]}] * 2),
    ],
    ids=["number", "text", "per env", "some envs", "nested", "array without axes", "other length"],
)
def test_infos_of_array_envs_are_read_per_env(info: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    env = Clockwork(num_envs=2)
    env.extra = info
    envs = VectorEnvs(env)
    envs.reset(0)
    rows = envs.step(np.zeros(2, np.int64)).infos
    plain = [{key: x.tolist() if isinstance(x, np.ndarray) else x for key, x in row.items()} for row in rows]
    assert plain == expected


def step_often(envs: Envs, times: int) -> None:
    for _ in range(times):
        envs.step(np.zeros(envs.n_envs, np.int64))


@every_source
def test_an_env_that_raises_when_it_is_reset_is_named(source: str) -> None:
    class RefusesSecondReset(Scripted):
        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            if self._episode == 0:
                raise RuntimeError("no more episodes")
            return super().reset(seed=seed, options=options)

    envs = open_envs(source, [RefusesSecondReset, Scripted])
    envs.reset(0)
    with pytest.raises(EnvError, match="no more episodes"):
        step_often(envs, 5)


@every_source
def test_a_final_observation_that_is_not_finite_is_named_with_its_env(source: str) -> None:
    class EndsInNaN(Scripted):
        def _observe(self) -> Any:
            observation = super()._observe()
            if self._step == 5:
                observation[1] = np.nan
            return observation

    script = (Ending(5, False, True),)
    healthy: list[Factory] = [partial(Scripted, n, script) for n in range(2)]
    learner = scripted_learner(open_envs(source, [*healthy, partial(EndsInNaN, 2, script)]))
    with pytest.raises(NonFiniteError, match=r"observation\[1\] is nan in env 2 at step 4"):
        learner.collect()


@every_source
def test_a_terminal_observation_that_is_not_finite_is_named_too(source: str) -> None:
    """It is not learned from, but an env that gives it is broken in every mode alike (Y05)."""

    class DiesInNaN(Scripted):
        def _observe(self) -> Any:
            observation = super()._observe()
            if self._step == 5:
                observation[1] = np.nan
            return observation

    factories = [partial(DiesInNaN, n, (Ending(5, True, False),)) for n in range(2)]
    learner = scripted_learner(open_envs(source, factories))
    with pytest.raises(NonFiniteError, match=r"observation\[1\] is nan in env 0 at step 4"):
        learner.collect()


@pytest.mark.parametrize("field", ["reward", "terminated"])
def test_a_vector_env_that_gives_columns_for_rows_is_refused(field: str) -> None:
    class Columns(Clockwork):
        def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
            observation, reward, terminated, truncated, info = super().step(actions)
            if field == "reward":
                reward = reward[:, None]
            else:
                terminated = terminated[:, None]
            return observation, reward, terminated, truncated, info

    envs = VectorEnvs(Columns())
    envs.reset(0)
    with pytest.raises(EnvError, match=rf"Columns.*{field}"):
        envs.step(np.zeros(2, np.int64))


def test_a_dict_observation_may_have_a_key_and_its_underscored_twin() -> None:
    """``_x`` beside ``x`` is a mask in an info, but an observation like any other in an observation."""

    class Twins(Env[Any, Any]):
        observation_space = spaces.Dict({k: spaces.Box(-1.0, 1.0, (1,), np.float32) for k in ("x", "_x")})
        action_space = spaces.Discrete(2)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed, options=options)
            return self._both(0.25), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            return self._both(0.5), 0.0, False, True, {}

        def _both(self, x: float) -> dict[str, Any]:
            return {"x": np.array([x], np.float32), "_x": np.array([-x], np.float32)}

    envs = open_envs("same-step", [Twins, Twins])
    assert envs.reset(0)["_x"].tolist() == [[-0.25], [-0.25]]
    final = envs.step(np.zeros(2, np.int64)).final
    assert final[1]["_x"].tolist() == [-0.5]
