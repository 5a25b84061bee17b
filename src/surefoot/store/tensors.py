"""Arrays as a safetensors file. The header of a file we read is judged here, before a single array is made.

Layout: 8 bytes little-endian header length, JSON header `{name: {dtype, shape, data_offsets}}`, data.
https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from surefoot.store import jsontext

Array = npt.NDArray[Any]

MAX_NAME_CHARACTERS = 512
MAX_DIMENSIONS = 32
_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_RESERVED_NAME = "__metadata__"


class InvalidTensors(ValueError):
    """Arrays that cannot be stored, or a file that is not what the writer makes of arrays."""


@dataclass(frozen=True)
class TensorEntry:
    """One array in a file: its bytes are `[begin, end)` of the data part."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def encode(tensors: Mapping[str, Array]) -> bytes:
    """The safetensors file of these arrays."""
    dense: dict[str, Array] = {}
    for name, array in tensors.items():
        reason = _fault_of_name(name)
        if reason:
            raise InvalidTensors(f"the tensor name {name!r} {reason}")
        if not isinstance(array, np.ndarray) or array.dtype not in _DTYPES.values():
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            allowed = ", ".join(str(dtype) for dtype in _DTYPES.values())
            raise InvalidTensors(f"tensor {name!r} is {kind}; allowed are arrays of {allowed}")
        dense[name] = np.asarray(array, order="C")  # the writer takes the address of the first element
    data = bytes(save(dense))
    if int.from_bytes(data[:8], "little") > jsontext.MAX_BYTES:
        raise InvalidTensors(f"{len(dense)} tensors need a header of more than {jsontext.MAX_BYTES} bytes")
    return data


def read_header(file: BufferedReader, size: int) -> list[TensorEntry]:
    """Read and judge the header of a file of `size` bytes; leaves `file` at the first byte of data."""
    prefix = file.read(8)
    if len(prefix) < 8:
        raise InvalidTensors("shorter than a safetensors header")
    length = int.from_bytes(prefix, "little")
    if length > min(size - 8, jsontext.MAX_BYTES):
        raise InvalidTensors(f"claims a header of {length} bytes in a file of {size}")
    try:
        header = jsontext.loads(file.read(length), markers=False)
    except jsontext.InvalidJson as error:
        raise InvalidTensors(f"header: {error}") from error
    if not isinstance(header, dict):
        raise InvalidTensors("the header is not an object")
    entries = sorted((_entry(name, record) for name, record in header.items()), key=lambda e: (e.begin, e.end))
    position = 0
    for entry in entries:
        if entry.begin != position:
            raise InvalidTensors(f"tensor {entry.name!r} starts at {entry.begin}, expected {position}")
        position = entry.end
    if position != size - 8 - length:
        raise InvalidTensors(f"the tensors end at {position}, the data at {size - 8 - length}")
    return entries


def read_arrays(file: BufferedReader, entries: list[TensorEntry]) -> dict[str, Array]:
    """Read the arrays of a judged header, one after the other, each straight into its own memory."""
    arrays: dict[str, Array] = {}
    for entry in entries:
        array = np.empty(entry.shape, entry.dtype)
        octets = array.reshape(-1).view(np.uint8)
        position = 0
        while position < octets.size:
            count = file.readinto(octets.data[position:])
            if not count:
                raise InvalidTensors(f"the file ends inside tensor {entry.name!r}")
            position += count
        if entry.dtype == np.bool_ and octets.size and int(octets.max()) > 1:
            raise InvalidTensors(f"tensor {entry.name!r} is boolean and holds other bytes than 0 and 1")
        arrays[entry.name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return arrays


def _entry(name: str, record: object) -> TensorEntry:
    reason = _fault_of_name(name)
    if reason:
        raise InvalidTensors(f"the tensor name {name[:80]!r} {reason}")
    shown = repr(name[:80])
    if not isinstance(record, dict) or set(record) != {"dtype", "shape", "data_offsets"}:
        raise InvalidTensors(f"tensor {shown} is not described by dtype, shape and data_offsets")
    dtype = _DTYPES.get(record["dtype"]) if isinstance(record["dtype"], str) else None
    if dtype is None:
        raise InvalidTensors(f"tensor {shown} has an unknown dtype")
    shape, offsets = record["shape"], record["data_offsets"]
    if not _are_counts(shape) or len(shape) > MAX_DIMENSIONS:
        raise InvalidTensors(f"tensor {shown} has a shape that is not a short list of sizes")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise InvalidTensors(f"tensor {shown} has offsets that are not a range")
    if math.prod(shape) * dtype.itemsize != offsets[1] - offsets[0]:
        raise InvalidTensors(f"tensor {shown} has a shape that does not fill its {offsets[1] - offsets[0]} bytes")
    if math.prod(max(size, 1) for size in shape) * dtype.itemsize >= 1 << 63:
        raise InvalidTensors(f"tensor {shown} has a shape beyond any memory")
    return TensorEntry(name, dtype, tuple(shape), offsets[0], offsets[1])


def _are_counts(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 63 for item in value)


def _fault_of_name(name: object) -> str | None:
    """Why a tensor name is refused, or None."""
    if not isinstance(name, str):
        return "is not a string"
    if not 0 < len(name) <= MAX_NAME_CHARACTERS:
        return f"does not have 1 to {MAX_NAME_CHARACTERS} characters"
    if not name.isprintable() or "\\" in name or name == _RESERVED_NAME:
        return "holds characters that are not allowed"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "leaves its place: no part between slashes may be empty, '.' or '..'"
    return None
