"""Strict JSON: what goes in comes out equal, and no text can cost more memory or stack than the limits say.

Non-finite floats are written as `{"$float": "nan"}`; a key that starts with `$` gets one `$` more.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeAlias

import numpy as np

# None, bool, int, float, str, and lists and str-keyed dicts of these. Checked when written.
JSON: TypeAlias = Any

MAX_BYTES = 4 << 20
MAX_DEPTH = 64
MAX_VALUES = 200_000
MAX_INT_BITS = 8192
_MAX_INT_DIGITS = 2467  # of a number of 8192 bits
# Possessive, and content with an unclosed string, so that one pass is linear whatever the text.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
_FLOAT_KEY = "$float"
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class InvalidJson(ValueError):
    """A value that JSON cannot hold exactly, or a text that is not strict JSON within the limits."""


def dumps(value: JSON, *, name: str = "value", indent: int | None = None) -> bytes:
    """Encode `value`; raises InvalidJson, naming the place below `name`, for what would not come back equal.

    Numpy scalars come back as the Python number of the same value.
    """
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(_encode(value, name, 0), allow_nan=False, indent=indent, separators=separators)
    data = text.encode("ascii")
    _check_limits(data)
    return data


def loads(data: bytes, *, markers: bool = True) -> JSON:
    """Decode text; raises InvalidJson for anything that is not strict JSON within the limits.

    `markers=False` is for text that `dumps` did not write: `$` has no meaning there.
    """
    _check_limits(data)
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_marked_object if markers else _object,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            parse_int=_bounded_int,
        )
    except InvalidJson:
        raise
    except ValueError as error:
        raise InvalidJson(f"not JSON: {error}") from error


def _check_limits(data: bytes) -> None:
    """Bound size, depth and number of values before anything is built from the text."""
    if len(data) > MAX_BYTES:
        raise InvalidJson(f"{len(data)} bytes of JSON, at most {MAX_BYTES} are allowed")
    depth = values = 0
    for token in _TOKEN.finditer(data):
        first = token[0][:1]
        if first in (b"[", b"{"):
            depth += 1
            values += 1
        elif first in (b"]", b"}"):
            depth -= 1
        elif first == b",":
            values += 1
        if depth > MAX_DEPTH:
            raise InvalidJson(f"nested deeper than {MAX_DEPTH} levels")
        if values > MAX_VALUES:
            raise InvalidJson(f"more than {MAX_VALUES} values")


def _encode(value: JSON, place: str, depth: int) -> JSON:
    if depth > MAX_DEPTH:
        raise InvalidJson(f"{place} is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_FLOAT_KEY: str(float(value))}
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        if value.bit_length() > MAX_INT_BITS:
            raise InvalidJson(f"{place} is an integer of {value.bit_length()} bits, at most {MAX_INT_BITS}")
        return value
    if type(value) is list:
        return [_encode(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]
    if type(value) is dict:
        return {_encode_key(key, place): _encode(item, f"{place}.{key}", depth + 1) for key, item in value.items()}
    raise InvalidJson(f"{place} is a {type(value).__name__}, which JSON cannot hold exactly")


def _encode_key(key: object, place: str) -> str:
    if type(key) is not str:
        raise InvalidJson(f"{place} has the key {key!r}; keys must be strings")
    return "$" + key if key.startswith("$") else key


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """One JSON object, without duplicate keys."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidJson("an object has a key twice")
    return found


def _marked_object(pairs: list[tuple[str, JSON]]) -> JSON:
    """One JSON object as `dumps` writes it: a non-finite float, or a dict whose `$` are doubled."""
    found = _object(pairs)
    if not any(key.startswith("$") for key in found):
        return found
    if len(found) == 1 and _FLOAT_KEY in found:
        word = found[_FLOAT_KEY]
        if not isinstance(word, str) or word not in _NON_FINITE:
            raise InvalidJson("a $float that is not nan, inf or -inf")
        return _NON_FINITE[word]
    if any(key.startswith("$") and not key.startswith("$$") for key in found):
        raise InvalidJson("an unknown marker: a key that starts with a single $")
    return {key[1:] if key.startswith("$") else key: value for key, value in found.items()}


def _refuse_constant(word: str) -> JSON:
    raise InvalidJson(f"{word} is not JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidJson("a number beyond the range of a float")
    return number


def _bounded_int(text: str) -> int:
    if len(text) > _MAX_INT_DIGITS + 1:
        raise InvalidJson(f"an integer of {len(text)} digits")
    return int(text)
