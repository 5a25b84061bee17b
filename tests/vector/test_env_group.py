"""Single environments in one process: what they give wrong is named with env and step."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import Env, spaces

from algo.building import learner_on, make_learner
from faults.broken import Broken, Fault
from surefoot.errors import EnvError, SurefootError
from surefoot.vector.group import EnvGroup
from surefoot.vector.interface import env_seeds
from surefoot.workers.envs import WorkerEnvs
from vector.worlds import Scripted, Strict, observation_at

NO_ACTIONS = np.zeros(2, np.int64)


def play(group: EnvGroup, steps: int) -> None:
    for _ in range(steps):
        group.step(np.zeros(group.n_envs, np.int64))


def test_a_finished_env_is_reset_at_once() -> None:
    group = EnvGroup([Scripted(0), Scripted(1)])
    group.reset(0)
    play(group, 2)
    step = group.step(NO_ACTIONS)
    assert step.terminated.tolist() == [True, True]
    assert step.valid.tolist() == step.active.tolist() == [True, True]
    assert step.final[1]["obs"].tolist() == observation_at("box", 1, 0, 3).tolist()
    assert step.observation["obs"][1].tolist() == observation_at("box", 1, 1, 0).tolist()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("shape", r"observation 'obs' has shape \(3,\), its space says \(2,\)"),
        ("raise", "RuntimeError: broken on purpose"),
    ],
)
def test_an_env_that_breaks_in_a_step_is_named_with_the_step(fault: Fault, said: str) -> None:
    group = EnvGroup([Broken(fault, at_step=9), Broken(fault, at_step=4)])
    group.reset(0)
    play(group, 3)
    with pytest.raises(EnvError, match=rf"env 1 \(Broken\).* step [34].*{said}"):
        group.step(NO_ACTIONS)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("shape", r"observation has shape \(3,\), its space says \(2,\)"),
        ("bounds", r"observation\[0\] = 7.0 lies outside its space's bounds \[-1.0, 1.0\]"),
        ("raise", "RuntimeError: broken on purpose"),
    ],
)
def test_an_env_that_breaks_in_reset_is_named(fault: Fault, said: str) -> None:
    group = EnvGroup([Broken(fault, at_step=9), Broken(fault, at_step=0)])
    with pytest.raises(EnvError, match=rf"env 1 \(Broken\).*reset: {said}"):
        group.reset(0)


def test_an_env_that_gives_no_reward_is_named() -> None:
    class Unpaid(Scripted):
        def step(self, action: Any) -> Any:
            observation, _, terminated, truncated, info = super().step(action)
            return observation, None, terminated, truncated, info

    group = EnvGroup([Unpaid(0)])
    group.reset(0)
    with pytest.raises(EnvError, match=r"env 0 \(Unpaid\).* step 0"):
        play(group, 1)


class Codes(Env[Any, Any]):
    """Shows an integer code, from the fourth step one that its space does not have."""

    def __init__(self, space: spaces.Space[Any], good: Any, bad: Any) -> None:
        self.observation_space, self._good, self._bad, self._steps = space, good, bad, 0
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return self._good, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self._good if self._steps < 4 else self._bad, 0.0, False, False, {}


@pytest.mark.parametrize(
    ("space", "good", "bad"),
    [
        (spaces.Discrete(3), np.int64(2), np.int64(3)),
        (spaces.Discrete(3, start=5), np.int64(5), np.int64(4)),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), np.array([1, 3])),
        (spaces.MultiBinary(2), np.array([1, 0], np.int8), np.array([1, 2], np.int8)),
        (spaces.Discrete(3), np.int64(2), 1.5),
    ],
    ids=["discrete", "discrete below start", "multidiscrete", "multibinary", "fraction"],
)
def test_a_code_outside_its_space_is_named_with_env_and_step(space: spaces.Space[Any], good: Any, bad: Any) -> None:
    """Codes become one-hot vectors: an unknown one has none."""
    group = EnvGroup([Codes(space, good, good), Codes(space, good, bad)])
    learner = learner_on(group, n_steps=8, batch_size=16)
    with pytest.raises(SurefootError, match=r"env 1.*(step [34])"):
        learner.collect()


def test_the_same_env_twice_is_refused() -> None:
    """A callable that gives one env again and again would have several episodes interleaved in it."""
    env = Scripted(0)
    with pytest.raises(EnvError, match=r"(?i)same"):
        make_learner(lambda: env, n_envs=2)


def test_envs_with_different_spaces_are_refused() -> None:
    with pytest.raises(EnvError, match=r"env 1 \(Scripted\) has other spaces than env 0"):
        EnvGroup([Scripted(0), Scripted(0, kind="dict")])


def test_seeds_are_distinct_across_envs_and_nearby_roots() -> None:
    seeds = [seed for root in range(50) for seed in env_seeds(root, 32)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_the_seed_of_an_env_does_not_depend_on_how_many_there_are() -> None:
    assert env_seeds(3, 64)[:5] == env_seeds(3, 5)


def test_a_part_of_the_envs_starts_as_it_would_in_the_whole() -> None:
    """So that workers can share the envs among them."""

    class Noise(Scripted):
        def _observe(self) -> Any:
            return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    whole = EnvGroup([Noise() for _ in range(5)]).reset(7)["obs"]
    part = EnvGroup([Noise() for _ in range(2)], first_index=3).reset(7)["obs"]
    assert np.array_equal(part, whole[3:])


def test_observations_given_are_not_overwritten_by_the_next_step() -> None:
    group = EnvGroup([Scripted(0), Scripted(1)])
    first = group.reset(0)
    second = group.step(NO_ACTIONS).observation
    group.step(NO_ACTIONS)
    assert first["obs"][:, 2].tolist() == [0.0, 0.0]
    assert second["obs"][:, 2].tolist() == [1 / 8, 1 / 8]


def test_an_env_may_write_all_its_observations_into_one_array() -> None:
    class Thrifty(Scripted):
        def __init__(self, number: int) -> None:
            super().__init__(number)
            self._buffer = np.zeros(3, np.float32)

        def _observe(self) -> Any:
            self._buffer[:] = super()._observe()
            return self._buffer

    found = []
    for env in (Thrifty, Scripted):
        learner = learner_on(EnvGroup([partial(env, n)() for n in range(2)]), n_steps=16, batch_size=32)
        rollout = learner.collect()
        found.append((rollout.observation["obs"].clone(), rollout.final.observation["obs"].tolist()))
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert len(found[0][1]) > 2


SCALAR = spaces.Box(-1.0, 1.0, (), np.float32)


@pytest.mark.parametrize(
    "space",
    [
        SCALAR,
        spaces.Dict({"push": SCALAR, "gear": spaces.Discrete(3)}),
        spaces.Tuple((SCALAR, spaces.Discrete(3))),
        spaces.Box(-1.0, 1.0, (2,), np.float64),
        spaces.Discrete(3),
    ],
    ids=str,
)
def test_every_env_gets_an_action_that_its_space_contains_without_a_warning(space: spaces.Space[Any]) -> None:
    make_learner(partial(Strict, space)).collect()


def test_so_does_an_env_in_a_worker() -> None:
    envs = WorkerEnvs(partial(Strict, SCALAR), 2, 1)
    try:
        learner_on(envs, n_steps=8, batch_size=8).collect()
        assert envs.n_restarts == 0
    finally:
        envs.close()
