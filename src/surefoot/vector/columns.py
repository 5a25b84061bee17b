"""Names of the numbers of an observation that is one array, where an env declares them as ``observation_columns``."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorObservationWrapper, VectorWrapper

from surefoot.errors import EnvError
from surefoot.spaces import Layout

ATTRIBUTE = "observation_columns"
WRAPPERS = (gymnasium.Wrapper, VectorWrapper)
CHANGES_OBSERVATIONS = (gymnasium.ObservationWrapper, VectorObservationWrapper)


def declared_columns(env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], layout: Layout) -> tuple[str, ...]:
    """The names in the order of the flattened observation; none if the env gives none, or not as many as there are.

    A wrapper that changes observations hides the names of what it wraps, and may have names of its own.
    """
    found = _found(env)
    names = tuple(map(str, found)) if isinstance(found, tuple | list) else ()
    fits = len(layout.leaves) == 1 and len(names) == math.prod(layout.leaves[0].shape)
    return names if fits else ()


def _found(env: Any) -> Any:
    while isinstance(env, WRAPPERS):
        if ATTRIBUTE in {**vars(type(env)), **vars(env)}:
            break
        if isinstance(env, CHANGES_OBSERVATIONS) or env.observation_space is not env.env.observation_space:
            return None
        env = env.env
    if isinstance(env, SyncVectorEnv):
        return _found(env.envs[0])
    try:
        return getattr(env, ATTRIBUTE, None)
    except Exception as error:  # the env's own code
        raise EnvError(f"{type(env).__name__}.{ATTRIBUTE} raised {type(error).__name__}: {error}") from error
