"""From an id, a callable, an env or a vector env to environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from surefoot.errors import ConfigError, EnvError, UnsupportedSpaceError
from surefoot.rollout.make import env_factory, make_envs, own_n_envs
from surefoot.vector.group import EnvGroup
from surefoot.vector.gymnasium_vector import VectorEnvs
from vector.trams import ONLY_SINGLE, ONLY_TOGETHER, OWN_TRAM, TRAM, TramCar, register_trams
from vector.worlds import Clockwork, Scripted


def heavy_pendulum(g: float = 10.0) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("Pendulum-v1", g=g)


def gravity(env: gymnasium.Env[Any, Any]) -> float:
    return float(env.get_wrapper_attr("g"))


def test_an_id_makes_as_many_envs_as_wanted_with_their_arguments() -> None:
    envs = make_envs("Pendulum-v1", 3, {"g": 5.0})
    assert isinstance(envs, EnvGroup)
    assert [gravity(env) for env in envs.envs] == [5.0] * 3


def test_the_toy_worlds_are_known_by_their_ids() -> None:
    for name in list(gymnasium.registry):
        if name.startswith("surefoot/"):
            del gymnasium.registry[name]
    envs = make_envs("surefoot/Bandit-v0", 2, {})
    assert envs.n_envs == 2


def test_a_callable_makes_as_many_envs_as_wanted_with_their_arguments() -> None:
    envs = make_envs(heavy_pendulum, 2, {"g": 3.0})
    assert isinstance(envs, EnvGroup)
    assert [gravity(env) for env in envs.envs] == [3.0] * 2
    assert envs.envs[0] is not envs.envs[1]


def test_a_module_path_makes_envs() -> None:
    envs = make_envs("surefoot.worlds.bandit:Bandit", 2, {"n_pulls": 7})
    assert isinstance(envs, EnvGroup)
    assert envs.n_envs == 2


def test_an_env_is_taken_as_it_is() -> None:
    env = Scripted(0)
    envs = make_envs(env, 1, {})
    assert isinstance(envs, EnvGroup)
    assert envs.envs == [env]
    assert own_n_envs(env) == 1


def test_a_vector_env_is_taken_as_it_is() -> None:
    env = Clockwork(num_envs=3)
    envs = make_envs(env, 3, {})
    assert isinstance(envs, VectorEnvs)
    assert envs.n_envs == own_n_envs(env) == 3


@pytest.mark.parametrize(
    ("env", "kwargs", "said"),
    [
        ("CartPole-v99", {}, "CartPole-v99"),
        ("NoSuchThing-v0", {}, "NoSuchThing"),
        ("CartPole-v1", {"colour": "red"}, "colour"),
        ("no.such.module:Env", {}, r"no\.such\.module"),
        ("surefoot.worlds.bandit:Nothing", {}, "Nothing"),
        ("surefoot.worlds.corridor:LEAVE_REWARD", {}, "not callable"),
    ],
)
def test_an_env_that_cannot_be_made_is_named(env: str, kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(EnvError, match=said):
        make_envs(env, 1, kwargs)


def test_a_callable_that_makes_no_env_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"int, not a gymnasium\.Env"):
        make_envs(lambda: 3, 1, {})  # type: ignore[arg-type,return-value] # the mistake under test


def test_an_unsupported_space_is_named() -> None:
    class Writes(Scripted):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gymnasium.spaces.Text(5)

    with pytest.raises(UnsupportedSpaceError, match=r"Text.*supported: Box, Discrete"):
        make_envs(Writes, 1, {})


def test_another_env_like_an_instance_has_its_arguments_and_wrappers() -> None:
    env = TimeLimit(gymnasium.make("Pendulum-v1", g=4.0), 7)
    other = env_factory(env, {})()
    assert gravity(other) == 4.0
    assert other is not env
    other.reset(seed=0)
    ends = [other.step(other.action_space.sample())[3] for _ in range(7)]
    assert ends == [False] * 6 + [True]


@pytest.mark.parametrize("mode", ["sync", "vector_entry_point"])
def test_another_env_like_those_of_a_vector_env_can_be_made(mode: str) -> None:
    """Evaluation plays single envs; those of a vector env come from its spec."""
    vector = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode=mode, sutton_barto_reward=True)
    env = env_factory(vector, {})()
    assert isinstance(env, gymnasium.Env)
    assert env.observation_space == vector.single_observation_space
    env.reset(seed=0)
    assert env.step(0)[1] == 0.0  # as sutton_barto_reward pays, not 1


def test_an_instance_without_spec_cannot_be_made_again() -> None:
    with pytest.raises(EnvError, match=r"Scripted.*without a spec"):
        env_factory(Scripted(0), {})


def kind_of(envs: Any) -> str:
    found = type(envs).__name__
    envs.close()
    return found


@pytest.mark.parametrize(
    ("env", "vectorization", "expected"),
    [
        (TRAM, "auto", "EnvGroup"),
        (TRAM, "sync", "EnvGroup"),
        (TRAM, "vector_entry_point", "VectorEnvs"),
        (OWN_TRAM, "auto", "VectorEnvs"),
        (OWN_TRAM, "sync", "EnvGroup"),
        (ONLY_TOGETHER, "auto", "VectorEnvs"),
        (ONLY_SINGLE, "auto", "EnvGroup"),
        ("surefoot/Bandit-v0", "auto", "EnvGroup"),
        ("CartPole-v1", "auto", "EnvGroup"),
        ("CartPole-v1", "vector_entry_point", "VectorEnvs"),
        (TramCar, "sync", "EnvGroup"),
    ],
)
def test_which_ids_are_stepped_together(env: Any, vectorization: Any, expected: str) -> None:
    register_trams()
    assert kind_of(make_envs(env, 3, {}, vectorization=vectorization)) == expected


def test_envs_that_step_together_have_the_number_and_the_arguments() -> None:
    register_trams()
    envs = make_envs(OWN_TRAM, 5, {"length": 2})
    assert (envs.n_envs, envs.reset(0)["obs"].shape) == (5, (5, 2))
    assert not envs.step(np.zeros(5, np.int64)).truncated.any()
    assert envs.step(np.zeros(5, np.int64)).truncated.all()


def test_our_own_ids_go_to_workers_one_by_one() -> None:
    register_trams()
    assert kind_of(make_envs(OWN_TRAM, 2, {}, workers=1)) == "WorkerEnvs"


@pytest.mark.parametrize(
    ("env", "settings", "words"),
    [
        (ONLY_SINGLE, {"vectorization": "vector_entry_point"}, [ONLY_SINGLE, "no vector entry point", "sync"]),
        ("Nowhere-v0", {"vectorization": "vector_entry_point"}, ["Nowhere"]),
        (TramCar, {"vectorization": "vector_entry_point"}, ["TramCar", "callable"]),
        ("surefoot.worlds.bandit:Bandit", {"vectorization": "vector_entry_point"}, ["callable"]),
        (TramCar(), {"vectorization": "sync"}, ["TramCar", "made already"]),
        (ONLY_TOGETHER, {"vectorization": "sync"}, [ONLY_TOGETHER, "vector entry point only"]),
        (ONLY_TOGETHER, {"workers": 2}, [ONLY_TOGETHER, "workers = 2"]),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_cannot_be_stepped_together_or_apart_is_refused(env: Any, settings: Any, words: list[str]) -> None:
    register_trams()
    with pytest.raises((ConfigError, EnvError)) as caught:
        make_envs(env, 2, {}, **settings)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_wrong_arguments_of_a_vector_entry_point_are_named_with_the_id() -> None:
    register_trams()
    with pytest.raises(EnvError, match=rf"{OWN_TRAM}.*wheels"):
        make_envs(OWN_TRAM, 2, {"wheels": 3})
