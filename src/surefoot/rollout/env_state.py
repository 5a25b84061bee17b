"""The exact state of an environment in mid-episode, as JSON, where the environment allows it (Y02).

An env that offers ``state_dict()`` and ``load_state_dict(state)`` speaks for itself. Gymnasium's classic-control envs
and its standard wrappers are known here. For anything else `capture` answers None, and a checkpoint is not exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import (
    AcrobotEnv,
    CartPoleEnv,
    Continuous_MountainCarEnv,
    MountainCarEnv,
    PendulumEnv,
)
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

State = dict[str, Any]


@runtime_checkable
class Resumable(Protocol):
    """An environment that can be saved in mid-episode, its random stream included."""

    def state_dict(self) -> State:
        """Everything that its future depends on, as JSON."""

    def load_state_dict(self, state: State) -> None:
        """Go on from there."""


WRAPPERS: dict[type[Any], tuple[str, ...]] = {
    TimeLimit: ("_elapsed_steps",),
    OrderEnforcing: ("_has_reset",),
    PassiveEnvChecker: (),
}
CLASSIC: dict[type[Any], tuple[str, ...]] = {
    CartPoleEnv: ("state", "steps_beyond_terminated"),
    PendulumEnv: ("state", "last_u"),
    AcrobotEnv: ("state",),
    MountainCarEnv: ("state",),
    Continuous_MountainCarEnv: ("state",),
}


def capture(env: gymnasium.Env[Any, Any]) -> State | None:
    """The state of an env and its wrappers, or None if one of them cannot say it."""
    if isinstance(env, Resumable):
        return {"own": env.state_dict()}
    if isinstance(env, gymnasium.Wrapper):
        fields = WRAPPERS.get(type(env))
        inner = capture(env.env) if fields is not None else None
        if fields == ():  # nothing to keep, and the same env may be made without it
            return inner
        return None if inner is None or fields is None else {"wrapper": _read(env, fields), "inner": inner}
    fields = CLASSIC.get(type(env))
    if fields is None:
        return None
    return {"classic": type(env).__name__, "fields": _read(env, fields), "random": env.np_random.bit_generator.state}


def restore(env: gymnasium.Env[Any, Any], state: Mapping[str, Any]) -> None:
    """Put an env, made as the captured one was, into the captured state."""
    if state.get("wrapper") == {}:  # an older format kept wrappers without state
        restore(env, state["inner"])
    elif "own" in state and isinstance(env, Resumable):
        env.load_state_dict(state["own"])
    elif isinstance(env, gymnasium.Wrapper) and WRAPPERS.get(type(env)) == ():
        restore(env.env, state)
    elif "wrapper" in state and isinstance(env, gymnasium.Wrapper):
        _write(env, state["wrapper"])
        restore(env.env, state["inner"])
    elif type(env) in CLASSIC and state.get("classic") == type(env).__name__:
        _write(env, state["fields"])
        env.np_random.bit_generator.state = state["random"]
    else:
        raise ValueError(f"the saved state does not belong to {env}")


def _read(owner: Any, fields: tuple[str, ...]) -> State:
    return {field: _encode(getattr(owner, field)) for field in fields if field in vars(owner)}


def _write(owner: Any, fields: Mapping[str, Any]) -> None:
    for field, value in fields.items():
        setattr(owner, field, _decode(value))


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return {"array": np.asarray(value).tolist(), "dtype": str(np.asarray(value).dtype)}
    if isinstance(value, tuple):
        return {"tuple": [_encode(x) for x in value]}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, dict) and "array" in value:
        array = np.array(value["array"], dtype=value["dtype"])
        return array if array.ndim else array[()]
    if isinstance(value, dict) and "tuple" in value:
        return tuple(_decode(x) for x in value["tuple"])
    return value
