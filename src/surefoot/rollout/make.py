"""From what a user may give (id, callable, env, vector env) to `Envs`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from surefoot.errors import ConfigError, EnvError
from surefoot.rollout.envs import Envs
from surefoot.rollout.group import Env, EnvGroup
from surefoot.rollout.vector import VectorEnvs
from surefoot.rollout.workers import WorkerEnvs

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
        return EnvGroup([env])
    factory = env_factory(env, env_kwargs)
    if workers:
        return WorkerEnvs(factory, n_envs, workers, worker_timeout)
    return EnvGroup([factory() for _ in range(n_envs)])


def own_n_envs(env: EnvLike) -> int | None:
    """How many envs an instance is, or None for something that makes as many as wanted."""
    if isinstance(env, VectorEnv):
        return env.num_envs
    return 1 if isinstance(env, gymnasium.Env) else None


def env_factory(env: EnvLike, env_kwargs: Mapping[str, Any]) -> Callable[[], Env]:
    """A function that makes one more env like ``env``; an instance is made anew from its spec."""
    if isinstance(env, VectorEnv | gymnasium.Env):
        spec = env.spec
        if spec is None:
            raise EnvError(
                f"another {type(env.unwrapped).__name__} cannot be made from an instance without a spec; "
                "give PPO an env id or a callable, or pass evaluate(env=…)"
            )
        return lambda: gymnasium.make(spec, **({} if isinstance(env, gymnasium.Env) else spec.kwargs))
    if callable(env):
        call = env
        return lambda: _checked(call(**env_kwargs), call)
    if ":" in env and not env.partition(":")[2].count("-v"):
        call = _import(env)
        return lambda: _checked(call(**env_kwargs), call)
    return lambda: _make(env, env_kwargs)


def _make(env_id: str, env_kwargs: Mapping[str, Any]) -> Env:
    try:
        return gymnasium.make(env_id, disable_env_checker=True, **env_kwargs)
    except (gymnasium.error.Error, ModuleNotFoundError, TypeError) as error:
        raise EnvError(f"cannot make the env {env_id!r}: {error}") from error


def _import(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise EnvError(f"cannot import the env {path!r}: {error}") from error
    if not callable(found):
        raise EnvError(f"{path!r} is not callable; it must make an env")
    call: Callable[..., Any] = found
    return call


def _checked(env: Any, call: Callable[..., Any]) -> Env:
    if not isinstance(env, gymnasium.Env):
        raise ConfigError(f"{call!r} made {type(env).__name__}, not a gymnasium.Env")
    return env
