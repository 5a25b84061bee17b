"""How an env instance can be made again: by the id and the arguments that a configuration can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv, VectorWrapper

from surefoot.vector.group import Env

NOT_OF_THE_ENV = ("render_mode", "num_envs", "vectorization_mode", "vector_kwargs", "wrappers")
"""Arguments of an instance that say how it is shown or bundled, not what it is."""


@dataclass(frozen=True)
class Recipe:
    """``gymnasium.make(env_id, **env_kwargs)`` gives an equal env."""

    env_id: str
    env_kwargs: dict[str, Any]


def recipe_of(env: Env | VectorEnv[Any, Any, Any]) -> Recipe | None:
    """None if id and arguments do not tell all: no spec, an id that is not registered, wrappers of the user."""
    spec = env.spec
    if spec is None or isinstance(env, VectorWrapper) or spec.kwargs.get("wrappers"):
        return None
    try:
        registered = gymnasium.spec(spec.id)
    except gymnasium.error.Error:
        return None
    if spec.additional_wrappers != registered.additional_wrappers or spec.entry_point != registered.entry_point:
        return None
    return Recipe(spec.id, _given(spec, registered))


def _given(spec: EnvSpec, registered: EnvSpec) -> dict[str, Any]:
    """Arguments that differ from those of the registration; the limit of steps is one of them."""
    given = {name: value for name, value in spec.kwargs.items() if name not in NOT_OF_THE_ENV}
    given.setdefault("max_episode_steps", spec.max_episode_steps)
    usual = {"max_episode_steps": registered.max_episode_steps} | registered.kwargs
    return {name: value for name, value in given.items() if name not in usual or not _same(value, usual[name])}


def _same(left: Any, right: Any) -> bool:
    try:
        return bool(left == right)
    except ValueError:  # arrays have no single answer
        return False
