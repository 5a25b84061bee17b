"""Python values as JSON and back: numbers, text, lists, tuples, dicts and numpy arrays come back equal, of their type.

A tuple becomes ``{"tuple": […]}``, an array ``{"array": base64, "dtype": …, "shape": […]}``, and a dict whose keys are
not all text, or are one of these words, ``{"dict": [[key, value], …]}``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np

from surefoot.errors import EnvStateError
from surefoot.store.jsontext import MAX_INT_BITS

MARKERS = frozenset({"array", "tuple", "dict"})
NUMBERS = "biuf"
"""Kinds of arrays that are kept; those of objects, text and dates are not."""
MAX_DEPTH = 40
"""Of the JSON; a checkpoint puts it some levels deeper."""
MAX_ARRAY_BYTES = 1 << 21


def encode(value: Any, place: str, depth: int = 0) -> Any:
    """A copy of ``value`` as JSON; raises `EnvStateError`, naming the place, for what would not come back equal."""
    if depth > MAX_DEPTH:
        raise EnvStateError(f"{place} is nested deeper than {MAX_DEPTH} levels")
    if type(value) is int and value.bit_length() > MAX_INT_BITS:
        raise EnvStateError(f"{place} is a number of {value.bit_length()} bits, at most {MAX_INT_BITS} can be kept")
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _encode_array(np.asarray(value), place)
    if type(value) is list:
        return _encode_all(value, place, depth)
    if type(value) is tuple:
        return {"tuple": _encode_all(value, place, depth + 1)}
    if type(value) is not dict:
        raise EnvStateError(
            f"{place} is a {type(value).__name__}; use numbers, text, lists, tuples, dicts or numpy arrays"
        )
    if all(type(key) is str for key in value) and not MARKERS & value.keys():
        return {key: encode(part, f"{place}[{key!r}]", depth + 1) for key, part in value.items()}
    return {"dict": [_encode_all(pair, f"{place}[{pair[0]!r}]", depth + 2) for pair in value.items()]}


def decode(value: Any) -> Any:
    """The inverse of `encode`; a new object each time. Raises ValueError, TypeError or KeyError for anything else."""
    if isinstance(value, list):
        return [decode(x) for x in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return _decode_array(value)
    if "tuple" in value:
        return tuple(decode(x) for x in value["tuple"])
    if "dict" in value:
        return {decode(key): decode(part) for key, part in value["dict"]}
    return {key: decode(part) for key, part in value.items()}


def _encode_all(values: Iterable[Any], place: str, depth: int) -> list[Any]:
    return [encode(x, f"{place}[{i}]", depth + 1) for i, x in enumerate(values)]


def _encode_array(array: Any, place: str) -> dict[str, Any]:
    if array.dtype.kind not in NUMBERS or array.dtype.itemsize > 8:
        raise EnvStateError(f"{place} is of {array.dtype}; use arrays of numbers or flags")
    if array.nbytes > MAX_ARRAY_BYTES:
        raise EnvStateError(f"{place} is an array of {array.nbytes} bytes, at most {MAX_ARRAY_BYTES} can be kept")
    data = base64.b64encode(array.tobytes()).decode("ascii")
    return {"array": data, "dtype": array.dtype.str, "shape": list(array.shape)}


def _decode_array(value: dict[str, Any]) -> Any:
    dtype = np.dtype(value["dtype"])
    if dtype.kind not in NUMBERS:
        raise ValueError(f"an array of {dtype} among the values of an env")
    if isinstance(value["array"], str):
        flat = np.frombuffer(base64.b64decode(value["array"], validate=True), dtype)
        array = flat.reshape(value["shape"]).copy()
    else:  # as older checkpoints have it
        array = np.array(value["array"], dtype)
    return array if array.ndim else array[()]
