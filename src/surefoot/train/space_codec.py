"""Gymnasium spaces and heads as JSON and arrays, so that an agent can act without its env.

What comes out of a file is checked before it is made into a space: a few bytes cannot ask for much memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from surefoot.actions.heads import HeadSpec
from surefoot.errors import CheckpointError, ConfigError, UnsupportedSpaceError
from surefoot.vector.interface import Envs

Array = np.ndarray[Any, Any]
JSON = Any
MOST_PIXELS = 1 << 24
"""Bytes of an image. Its size does not show in the weights, as that of other observations does."""
DTYPES = {str(np.dtype(kind)) for kind in "bBhHiIlLefd?"}


class SavedSpaces(NamedTuple):
    """What an agent sees and does."""

    observation: spaces.Space[Any]
    action: spaces.Space[Any]
    heads: tuple[HeadSpec, ...] | None


def encode_spaces(envs: Envs) -> tuple[JSON, dict[str, Array]]:
    """Spaces and heads of envs: JSON, and arrays by name; None if a key of a Dict is neither text nor a number."""
    arrays: dict[str, Array] = {}
    try:
        encoded = {
            "observation": _encode(envs.observation_space, arrays),
            "action": _encode(envs.action_space, arrays),
            "heads": None if envs.action_heads is None else [_encode_head(head) for head in envs.action_heads],
        }
    except _Unnameable:
        return None, {}
    return encoded, arrays


def decode_spaces(encoded: JSON, arrays: Mapping[str, Array], most: int) -> SavedSpaces:
    """The inverse; a space with more than ``most`` numbers is refused, since no weights of the file belong to them."""
    try:
        heads = encoded["heads"]
        return SavedSpaces(
            _decode(encoded["observation"], arrays, most),
            _decode(encoded["action"], arrays, most),
            None if heads is None else tuple(_decode_head(head) for head in heads),
        )
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError, IndexError, OverflowError) as error:
        raise CheckpointError(f"its spaces cannot be read: {type(error).__name__}: {error}") from None
    except (ConfigError, UnsupportedSpaceError) as error:
        raise CheckpointError(f"its spaces cannot be read: {error}") from None


class _Unnameable(Exception):
    """A key that JSON cannot hold."""


def _encode(space: spaces.Space[Any], arrays: dict[str, Array]) -> JSON:
    if isinstance(space, spaces.Dict):
        if not all(isinstance(key, str | int) for key in space.spaces):
            raise _Unnameable
        return {"kind": "Dict", "spaces": [[key, _encode(sub, arrays)] for key, sub in space.spaces.items()]}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [_encode(sub, arrays) for sub in space.spaces]}
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": str(np.dtype(space.dtype))}
    if isinstance(space, spaces.MultiDiscrete):
        return {
            "kind": "MultiDiscrete",
            "nvec": space.nvec.tolist(),
            "start": space.start.tolist(),
            "dtype": str(np.dtype(space.dtype)),
        }
    if isinstance(space, spaces.MultiBinary):
        n = space.n
        return {"kind": "MultiBinary", "n": int(n) if isinstance(n, int | np.integer) else [int(side) for side in n]}
    assert isinstance(space, spaces.Box), f"{space} has no encoder, so no agent has it"
    return {
        "kind": "Box",
        "shape": list(space.shape),
        "dtype": str(np.dtype(space.dtype)),
        "low": _bound(space.low, arrays),
        "high": _bound(space.high, arrays),
    }


def _bound(bound: Array, arrays: dict[str, Array]) -> JSON:
    """One number if all are equal, else the name of an array."""
    if bound.size and (bound == bound.flat[0]).all():
        return bound.flat[0].item()
    name = f"spaces/{len(arrays)}"
    arrays[name] = np.array(bound, np.int64 if bound.dtype.kind in "iu" else np.float64)
    return name


def _decode(encoded: JSON, arrays: Mapping[str, Array], most: int) -> spaces.Space[Any]:
    kind = encoded["kind"]
    if kind == "Dict":
        # Pairs, since Gymnasium sorts the keys of a dict, and the order is that of the features.
        return spaces.Dict([(key, _decode(sub, arrays, most)) for key, sub in encoded["spaces"]])
    if kind == "Tuple":
        return spaces.Tuple([_decode(sub, arrays, most) for sub in encoded["spaces"]])
    if kind == "Discrete":
        n, start = _whole(encoded["n"]), encoded["start"]
        return spaces.Discrete(n, start=_whole(start, least=-(1 << 62)), dtype=_dtype(encoded["dtype"]))
    if kind == "MultiDiscrete":
        nvec = np.array(encoded["nvec"], np.int64)
        _require(0 < int(nvec.clip(0).astype(object).sum()) <= most, f"MultiDiscrete with {nvec.sum()} choices")
        return spaces.MultiDiscrete(nvec, start=np.array(encoded["start"], np.int64), dtype=_dtype(encoded["dtype"]))
    if kind == "MultiBinary":
        n = encoded["n"]
        return spaces.MultiBinary(_shape(n, most) if isinstance(n, list) else _shape([n], most)[0])
    _require(kind == "Box", f"the kind {kind!r}")
    dtype = _dtype(encoded["dtype"])
    is_image = dtype == np.uint8 and len(encoded["shape"]) == 3
    shape = _shape(encoded["shape"], MOST_PIXELS if is_image else most)
    low, high = (_read_bound(encoded[side], arrays, shape, dtype) for side in ("low", "high"))
    return spaces.Box(low, high, shape, dtype)


def _read_bound(given: JSON, arrays: Mapping[str, Array], shape: tuple[int, ...], dtype: Any) -> Array:
    if isinstance(given, str):
        _require(arrays[given].shape == shape, f"bounds of shape {arrays[given].shape} for {shape}")
        return arrays[given].astype(dtype)
    _require(isinstance(given, int | float), f"the bound {given!r}")
    return np.full(shape, given, dtype)


def _shape(given: JSON, most: int) -> tuple[int, ...]:
    shape = tuple(_whole(side, least=0) for side in given)
    _require(len(shape) <= 32 and math.prod(shape) <= most, f"a space of shape {shape}")
    return shape


def _whole(given: JSON, least: int = 1) -> int:
    _require(type(given) is int and least <= given < 1 << 62, f"the size {given!r}")
    return int(given)


def _dtype(given: JSON) -> Any:
    _require(given in DTYPES, f"the dtype {given!r}")
    return np.dtype(given).type


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"{what} is not one that this agent could have")


def _encode_head(head: HeadSpec) -> JSON:
    n: Any = head.n
    when = head.relevant_when
    return {
        "name": head.name,
        "n": n if n is None or isinstance(n, int) else list(n),
        "relevant_when": None if when is None else {name: _listed(values) for name, values in when.items()},
    }


def _listed(values: Any) -> list[Any]:
    items = values if isinstance(values, Sequence) and not isinstance(values, str) else [values]
    return [item if isinstance(item, str) else int(item) for item in items]


def _decode_head(encoded: JSON) -> HeadSpec:
    return HeadSpec(encoded["name"], encoded["n"], encoded["relevant_when"])
