"""The exact state of an environment in mid-episode, as JSON, where the environment allows it (Y02).

An env that offers ``state_dict()`` and ``load_state_dict(state)`` speaks for itself. Gymnasium's classic-control envs
and its standard wrappers are known here. For anything else `capture` answers None, and a checkpoint is not exact; nor
is it if what an env says of itself cannot be kept, which is an `EnvStateError`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import gymnasium
from gymnasium.envs.classic_control import (
    AcrobotEnv,
    CartPoleEnv,
    Continuous_MountainCarEnv,
    MountainCarEnv,
    PendulumEnv,
)
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from surefoot.errors import EnvStateError
from surefoot.rollout.plain import decode, encode
from surefoot.store import jsontext

State = dict[str, Any]
MAX_BYTES, MAX_VALUES = jsontext.MAX_BYTES // 2, jsontext.MAX_VALUES // 2
"""What the states of all envs may take; the rest of a checkpoint's JSON has the other half."""


@runtime_checkable
class Resumable(Protocol):
    """An environment that can be saved in mid-episode, its random stream included."""

    def state_dict(self) -> State:
        """Everything that its future depends on: numbers, text, lists, tuples, dicts and numpy arrays."""

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
    """A copy of the state of an env and its wrappers as JSON, or None if one of them cannot say it."""
    if isinstance(env, Resumable):
        return capture_own(env)
    if isinstance(env, gymnasium.Wrapper):
        fields = WRAPPERS.get(type(env))
        inner = capture(env.env) if fields is not None else None
        if fields == ():  # nothing to keep, and the same env may be made without it
            return inner
        return None if inner is None or fields is None else {"wrapper": _read(env, fields), "inner": inner}
    fields = CLASSIC.get(type(env))
    if fields is None:
        return None
    random = encode(env.np_random.bit_generator.state, "np_random")
    return {"classic": type(env).__name__, "fields": _read(env, fields), "random": random}


def capture_own(env: Resumable) -> State:
    """A copy of what an env says of itself, as JSON; raises `EnvStateError` with the reason if that fails."""
    try:
        return {"said": encode(env.state_dict(), "state_dict()")}
    except EnvStateError:
        raise
    except Exception as error:
        raise EnvStateError(f"state_dict() raised {type(error).__name__}: {error}") from error


def restore_own(env: Resumable, state: Mapping[str, Any]) -> None:
    """The inverse of `capture_own`."""
    env.load_state_dict(decode(state["said"]))


def require_small(states: list[Any]) -> None:
    """Raise `EnvStateError` unless the states of all envs leave room for the rest of a checkpoint."""
    data = json.dumps(states)
    count = data.count(",") + data.count("[") + data.count("{")
    if len(data) > MAX_BYTES or count > MAX_VALUES:
        raise EnvStateError(
            f"the states of all envs take {len(data)} bytes and {count} values as JSON, at most {MAX_BYTES} and "
            f"{MAX_VALUES} can be kept; put large data into numpy arrays, or leave out what does not change"
        )


def restore(env: gymnasium.Env[Any, Any], state: Mapping[str, Any]) -> None:
    """Put an env, made as the captured one was, into the captured state."""
    if state.get("wrapper") == {}:  # an older format kept wrappers without state
        restore(env, state["inner"])
    elif "said" in state and isinstance(env, Resumable):
        restore_own(env, state)
    elif "own" in state and isinstance(env, Resumable):  # as older checkpoints have it: nothing is encoded
        env.load_state_dict(state["own"])
    elif isinstance(env, gymnasium.Wrapper) and WRAPPERS.get(type(env)) == ():
        restore(env.env, state)
    elif "wrapper" in state and isinstance(env, gymnasium.Wrapper):
        _write(env, state["wrapper"], WRAPPERS.get(type(env), ()))
        restore(env.env, state["inner"])
    elif type(env) in CLASSIC and state.get("classic") == type(env).__name__:
        _write(env, state["fields"], CLASSIC[type(env)])
        env.np_random.bit_generator.state = decode(state["random"])
    else:
        raise ValueError(f"the saved state does not belong to {env}")


def _read(owner: Any, fields: tuple[str, ...]) -> State:
    return {field: encode(getattr(owner, field), field) for field in fields if field in vars(owner)}


def _write(owner: Any, fields: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for field, value in fields.items():
        if field not in known:
            raise ValueError(f"the saved state does not belong to {owner}: it has no {field!r}")
        setattr(owner, field, decode(value))
