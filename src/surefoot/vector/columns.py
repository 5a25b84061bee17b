"""Names of the numbers of an observation that is one array, where an env declares them as ``observation_columns``."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv, VectorEnv

from surefoot.spaces import Layout

ATTRIBUTE = "observation_columns"


def declared_columns(env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], layout: Layout) -> tuple[str, ...]:
    """The names in the order of the flattened observation; none if the env gives none, or not as many as there are."""
    if isinstance(env, VectorEnv):
        inner = env.unwrapped
        if isinstance(inner, SyncVectorEnv):
            return declared_columns(inner.envs[0], layout)
        found = getattr(inner, ATTRIBUTE, None)
    else:
        found = env.get_wrapper_attr(ATTRIBUTE) if env.has_wrapper_attr(ATTRIBUTE) else None
    names = tuple(map(str, found)) if isinstance(found, tuple | list) else ()
    fits = len(layout.leaves) == 1 and len(names) == math.prod(layout.leaves[0].shape)
    return names if fits else ()
