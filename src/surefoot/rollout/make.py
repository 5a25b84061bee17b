"""From what a user may give (id, callable, env, vector env) to `Envs`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from surefoot.config.schema import Vectorization
from surefoot.errors import FOREIGN, ConfigError, EnvError, SurefootError
from surefoot.hedging.registration import register_envs as register_hedging
from surefoot.market.registration import register_market
from surefoot.rollout.recipe import recipe_of
from surefoot.vector.group import Env, EnvGroup
from surefoot.vector.gymnasium_vector import VectorEnvs
from surefoot.vector.interface import Envs
from surefoot.workers.envs import WorkerEnvs
from surefoot.worlds.registration import OWN_NAMESPACE
from surefoot.worlds.registration import register_envs as register_worlds

EnvLike = str | Callable[[], Env] | Env | VectorEnv[Any, Any, Any]
EVALUATION_ENVS = 8
MAX_VECTOR_EVALUATION_ENVS = 1024
"""An evaluation has so many single envs; of those that step together one for each episode, but no more than this."""


def make_envs(
    env: EnvLike,
    n_envs: int,
    env_kwargs: Mapping[str, Any],
    workers: int = 0,
    worker_timeout: float = 60.0,
    vectorization: Vectorization = "auto",
) -> Envs:
    """Environments in this process, stepped together if ``vectorization`` says so, or in ``workers`` others."""
    if vectorization != "auto" and isinstance(env, VectorEnv | gymnasium.Env):
        raise ConfigError(
            f"vectorization = {vectorization!r} is about envs that are made of an id, and the given "
            f"{type(env).__name__} is made already: leave it out"
        )
    if workers and isinstance(env, VectorEnv | gymnasium.Env):
        raise ConfigError(
            f"workers = {workers}: the given {type(env).__name__} lives in this process and cannot be moved; "
            "give an id or a callable that makes an env, or set workers = 0"
        )
    if isinstance(env, VectorEnv):
        return VectorEnvs(env)
    if isinstance(env, gymnasium.Env):
        return EnvGroup([_with_spaces(env)])
    if has_vector_entry_point(env, vectorization, workers):
        return make_vector(str(env), n_envs, env_kwargs)
    factory = env_factory(env, env_kwargs)
    if workers:
        return WorkerEnvs(factory, n_envs, workers, worker_timeout)
    return make_group(factory, n_envs)


def has_vector_entry_point(env: EnvLike, vectorization: Vectorization, workers: int = 0) -> bool:
    """Whether the envs of an id shall be made by its vector entry point; an error if they shall and cannot."""
    if not isinstance(env, str) or _names_callable(env):
        if vectorization == "vector_entry_point":
            raise ConfigError(
                f"vectorization = {vectorization!r} needs an id with a vector entry point, and {_name(env)} is a "
                "callable that makes single envs: give the id, or a VectorEnv itself"
            )
        return False
    spec = _registered(env)
    if vectorization == "vector_entry_point":
        if spec is not None and spec.vector_entry_point is None:
            raise EnvError(
                f"the env {env!r} has no vector entry point, which vectorization = {vectorization!r} asks for: set "
                'vectorization = "sync" or leave it out'
            )
        return True
    if spec is None or spec.vector_entry_point is None:
        return False
    if spec.entry_point is None and (workers or vectorization == "sync"):
        setting = f"workers = {workers}" if workers else f"vectorization = {vectorization!r}"
        raise ConfigError(f"{setting} needs single envs, and {env!r} has a vector entry point only: leave it out")
    together = env.startswith(OWN_NAMESPACE) or spec.entry_point is None
    return together and vectorization == "auto" and not workers


def offers_vector_env(env: EnvLike) -> bool:
    """Whether something is an id with a vector entry point."""
    spec = _registered(env) if isinstance(env, str) else None
    return spec is not None and spec.vector_entry_point is not None


def make_vector(env_id: str, n_envs: int, env_kwargs: Mapping[str, Any]) -> VectorEnvs:
    """``n_envs`` environments that the vector entry point of an id makes."""
    with _making(f"the vector env {env_id!r}"):
        env = gymnasium.make_vec(env_id, n_envs, vectorization_mode="vector_entry_point", **env_kwargs)
        if not isinstance(env, VectorEnv) or env.num_envs != n_envs:
            raise EnvError(
                f"the vector entry point of {env_id!r} made {env!r} for num_envs = {n_envs}, not a VectorEnv of as many"
            )
        return VectorEnvs(env)


def make_evaluation_envs(
    env: EnvLike, env_kwargs: Mapping[str, Any], n_episodes: int, vectorization: Vectorization = "auto"
) -> Envs:
    """Other envs like ``env`` to play whole episodes in; an instance is made anew from its spec."""
    recipe = recipe_of(env) if isinstance(env, VectorEnv | gymnasium.Env) else None
    if recipe is not None:
        env, env_kwargs = recipe.env_id, recipe.env_kwargs
    if isinstance(env, str) and has_vector_entry_point(env, vectorization):
        return make_vector(env, vector_evaluation_envs(n_episodes), env_kwargs)
    return make_group(env_factory(env, env_kwargs), EVALUATION_ENVS)


def vector_evaluation_envs(n_episodes: int) -> int:
    """How many envs that step together play so many episodes."""
    return max(1, min(n_episodes, MAX_VECTOR_EVALUATION_ENVS))


def make_group(factory: Callable[[], Env], n_envs: int) -> EnvGroup:
    """``n_envs`` different envs in this process."""
    envs = [factory() for _ in range(n_envs)]
    if len({id(env.unwrapped) for env in envs}) < n_envs:
        raise EnvError(
            f"the callable gives the same {type(envs[0].unwrapped).__name__} each time, and {n_envs} envs are wanted: "
            "make a new env in it, or give the env itself"
        )
    return EnvGroup(envs)


def require_env(env: Any) -> None:
    """Raise if something is not `EnvLike`."""
    if not (isinstance(env, str | gymnasium.Env | VectorEnv) or callable(env)):
        raise ConfigError(
            f"env must be an id, a callable that makes an env, a gymnasium.Env or a VectorEnv, got {env!r}"
        )


def own_n_envs(env: EnvLike) -> int | None:
    """How many envs an instance is, or None for something that makes as many as wanted."""
    if isinstance(env, VectorEnv):
        return env.num_envs
    return 1 if isinstance(env, gymnasium.Env) else None


def env_factory(env: EnvLike, env_kwargs: Mapping[str, Any]) -> Callable[[], Env]:
    """A function that makes one more env like ``env``; an instance is made anew from its spec."""
    if isinstance(env, VectorEnv | gymnasium.Env):
        return _factory_like(env)
    if not isinstance(env, str):
        return partial(_call, env, env_kwargs)
    if _names_callable(env):
        return partial(_call, _import(env), env_kwargs)
    return partial(_make, env, env_kwargs)


def _factory_like(env: Env | VectorEnv[Any, Any, Any]) -> Callable[[], Env]:
    recipe = recipe_of(env)
    if recipe is not None:
        return partial(_make, recipe.env_id, recipe.env_kwargs)
    spec = env.spec
    if spec is None or isinstance(env, VectorEnv) or any(w.kwargs is None for w in spec.additional_wrappers):
        raise EnvError(
            f"another {type(env.unwrapped).__name__} cannot be made from an instance without a spec that says how; "
            "give PPO an env id or a callable, or pass evaluate(env=…)"
        )
    return lambda: _with_spaces(gymnasium.make(spec))


def _names_callable(env: str) -> bool:
    """Whether a text is ``module:callable``; ``module:Id-v0`` is an id of Gymnasium."""
    return ":" in env and not env.partition(":")[2].count("-v")


def register_own() -> None:
    """Make our own ids known to Gymnasium; calling it again does nothing."""
    register_worlds()
    register_hedging()
    register_market()


def _registered(env_id: str) -> EnvSpec | None:
    """What is registered under an id; None if nothing is, or a module must be imported first."""
    if env_id.startswith(OWN_NAMESPACE):
        register_own()
    return gymnasium.registry.get(env_id)


def _make(env_id: str, env_kwargs: Mapping[str, Any]) -> Env:
    if env_id.startswith(OWN_NAMESPACE):
        register_own()
    with _making(f"the env {env_id!r}"):
        return _with_spaces(gymnasium.make(env_id, disable_env_checker=True, **env_kwargs))


@contextmanager
def _making(what: str) -> Iterator[None]:
    """Whatever making an env raises becomes an error that names the env."""
    try:
        yield
    except SurefootError:
        raise
    except (gymnasium.error.Error, ModuleNotFoundError, TypeError) as error:
        raise EnvError(f"cannot make {what}: {error}") from error
    except FOREIGN as error:
        raise EnvError(f"cannot make {what}: {type(error).__name__}: {error}") from error


def _import(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise EnvError(f"cannot import the env {path!r}: {error}") from error
    except FOREIGN as error:  # the module's own, or of a name that is none
        raise EnvError(f"cannot import the env {path!r}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise EnvError(f"{path!r} is not callable; it must make an env")
    call: Callable[..., Any] = found
    return call


def _call(call: Callable[..., Any], env_kwargs: Mapping[str, Any]) -> Env:
    try:
        env = call(**env_kwargs)
    except SurefootError:
        raise
    except FOREIGN as error:
        raise EnvError(f"{_name(call)} raised while it made an env: {type(error).__name__}: {error}") from error
    if not isinstance(env, gymnasium.Env):
        raise ConfigError(f"{_name(call)} made {type(env).__name__}, not a gymnasium.Env")
    return _with_spaces(env)


def _with_spaces(env: Env) -> Env:
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gymnasium.Space):
            raise EnvError(f"{type(env.unwrapped).__name__} has no {name}: set it to a gymnasium.Space in __init__")
    return env


def _name(call: Any) -> str:
    return str(getattr(call, "__qualname__", repr(call)))
