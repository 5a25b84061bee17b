"""Arrays out of a file of demonstrations. Files are data: nothing is executed, and no number in one is believed as to
how much memory to take.

An ``.npz`` has one array for each name. A ``.parquet`` has columns, with ``_0``, ``_1`` … appended for the entries of
an array.
"""

from __future__ import annotations

import hashlib
import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from surefoot.errors import ConfigError
from surefoot.spaces import Array

MAX_BYTES = 1 << 31
"""Of all arrays of a file, unpacked."""


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays by name; a `ConfigError` says what cannot be read."""
    readers = {".npz": _read_npz, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise ConfigError(f"imitation.demonstrations = {str(path)!r}: only .npz and .parquet files are read")
    try:
        return readers[path.suffix](path)
    except FileNotFoundError:
        raise ConfigError(f"imitation.demonstrations: no file at {path}") from None
    except ConfigError:
        raise
    except Exception as error:  # broken archives fail in the words of whatever unpacks them
        raise ConfigError(f"{path} cannot be read as a set of demonstrations: {error}") from None


def sha256_of(path: Path) -> str:
    """Of the bytes of a file."""
    if not path.exists():
        raise ConfigError(f"imitation.demonstrations: no file at {path}")
    if not path.is_file():  # a pipe would be waited for
        raise ConfigError(f"imitation.demonstrations: {path} is no file")
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"imitation.demonstrations: cannot read {path}: {error.strerror}") from None


def refuse_above_limit(path: Path | str, size: int) -> None:
    """Raise if the arrays would take more than `MAX_BYTES`."""
    if size > MAX_BYTES:
        raise ConfigError(f"{path}: {size:,} bytes of arrays, at most {MAX_BYTES:,} are read")


def _read_npz(path: Path) -> dict[str, Array]:
    with zipfile.ZipFile(path) as archive:
        refuse_above_limit(path, sum(entry.file_size for entry in archive.infolist()))
        for entry in archive.infolist():
            with archive.open(entry) as member:
                if _declared_bytes(member) > entry.file_size:
                    raise ValueError(f"{entry.filename} says that it is larger than it is")
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _declared_bytes(member: IO[bytes]) -> int:
    """What numpy would allocate for an array before it reads it."""
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(member)
    if version not in headers:
        raise ValueError(f"an array has format {version}, which numbers do not need")
    shape, _, dtype = headers[version](member)
    if dtype.hasobject:
        raise ValueError("an array holds Python objects, which are code; only numbers are read")
    return math.prod(shape) * dtype.itemsize


def _read_parquet(path: Path) -> dict[str, Array]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(f"{path}: reading parquet needs pyarrow (pip install pyarrow); .npz does not") from None
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            for field in schema:
                if not (pyarrow.types.is_primitive(field.type) and not pyarrow.types.is_temporal(field.type)):
                    raise ConfigError(f"{path}: {field.name} has type {field.type}, which are no numbers")
            refuse_above_limit(path, file.metadata.num_rows * sum(-(-field.type.bit_width // 8) for field in schema))
            table = file.read()
    except pyarrow.ArrowException as error:
        raise ConfigError(f"{path} cannot be read as parquet: {error}") from None
    return _columns_together(path, table)


def _columns_together(path: Path, table: Any) -> dict[str, Array]:
    """The arrays of a table, with ``name_0``, ``name_1`` … as one."""
    found: dict[str, Array] = {}
    groups: dict[str, list[tuple[int, str]]] = {}
    for name in table.column_names:
        if table[name].null_count:
            raise ConfigError(f"{path}: {name} has {table[name].null_count} empty cells")
        stem, _, number = name.rpartition("_")
        if stem and number.isdecimal():
            groups.setdefault(stem, []).append((int(number), name))
        else:
            found[name] = table[name].to_numpy()
    for stem, columns in groups.items():
        numbers = sorted(number for number, _ in columns)
        if stem in found or numbers != list(range(len(numbers))):
            both = f", and a column {stem}" if stem in found else ""
            raise ConfigError(
                f"{path}: {stem} has columns numbered {', '.join(map(str, numbers))}{both}: they must count from 0 on "
                "without a gap"
            )
        found[stem] = np.stack([table[name].to_numpy() for _, name in sorted(columns)], 1)
    return found
