"""From what a user may give (id, callable, env, vector env) to `Envs`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from surefoot.errors import FOREIGN, ConfigError, EnvError, SurefootError
from surefoot.market.registration import register_market
from surefoot.rollout.recipe import recipe_of
from surefoot.vector.group import Env, EnvGroup
from surefoot.vector.gymnasium_vector import VectorEnvs
from surefoot.vector.interface import Envs
from surefoot.workers.envs import WorkerEnvs
from surefoot.worlds.registration import OWN_NAMESPACE, register_envs

EnvLike = str | Callable[[], Env] | Env | VectorEnv[Any, Any, Any]


def make_envs(
    env: EnvLike, n_envs: int, env_kwargs: Mapping[str, Any], workers: int = 0, worker_timeout: float = 60.0
) -> Envs:
    """Environments in this process, or in ``workers`` others."""
    if workers and isinstance(env, VectorEnv | gymnasium.Env):
        raise ConfigError(
            f"workers = {workers}: the given {type(env).__name__} lives in this process and cannot be moved; "
            "give an id or a callable that makes an env, or set workers = 0"
        )
    if isinstance(env, VectorEnv):
        return VectorEnvs(env)
    if isinstance(env, gymnasium.Env):
        return EnvGroup([_with_spaces(env)])
    factory = env_factory(env, env_kwargs)
    if workers:
        return WorkerEnvs(factory, n_envs, workers, worker_timeout)
    return make_group(factory, n_envs)


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
    if ":" in env and not env.partition(":")[2].count("-v"):
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


def _make(env_id: str, env_kwargs: Mapping[str, Any]) -> Env:
    if env_id.startswith(OWN_NAMESPACE):
        register_envs()
        register_market()
    try:
        return _with_spaces(gymnasium.make(env_id, disable_env_checker=True, **env_kwargs))
    except SurefootError:
        raise
    except (gymnasium.error.Error, ModuleNotFoundError, TypeError) as error:
        raise EnvError(f"cannot make the env {env_id!r}: {error}") from error
    except FOREIGN as error:
        raise EnvError(f"cannot make the env {env_id!r}: {type(error).__name__}: {error}") from error


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


def _name(call: Callable[..., Any]) -> str:
    return str(getattr(call, "__qualname__", repr(call)))
