"""From an id, a callable, an env or a vector env to environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
from gymnasium.wrappers import TimeLimit

from surefoot.errors import ConfigError, EnvError, UnsupportedSpaceError
from surefoot.rollout.make import env_factory, make_envs, own_n_envs
from surefoot.vector.group import EnvGroup
from surefoot.vector.gymnasium_vector import VectorEnvs
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
