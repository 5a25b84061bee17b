"""What data are, as one sha256: of a file its bytes, of a table its content."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from surefoot.market.extra import needed


def of_bytes(data: bytes) -> str:
    """Of a file: the same that ``sha256sum`` prints."""
    return hashlib.sha256(data).hexdigest()


def of_table(table: Any) -> str:
    """Of a pyarrow table: names and values of all columns, whatever library, chunks or number type held them.

    Numbers count as float64 (NaN and null alike), stamps as nanoseconds with their zone, the rest as text.
    """
    pa = needed("pyarrow", "reading prices")
    digest = hashlib.sha256(b"surefoot table 1")
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind, parts = _canonical(pa, column)
        for part in (name.encode(), kind.encode(), *parts):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()


def _canonical(pa: Any, column: Any) -> tuple[str, list[bytes]]:
    """Kind and bytes of a column."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype="<f8")
        return "number", [np.where(np.isnan(numbers), np.nan, numbers + 0.0).tobytes()]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        zone = getattr(kind, "tz", None)
        stamps = column.cast(pa.timestamp("ns", zone)).cast(pa.int64())
        return f"stamp {zone or ''}".rstrip(), [_integers(stamps)]
    text = column.cast(pa.large_string()).combine_chunks()
    lengths = _integers(pa.compute.binary_length(text).cast(pa.int64()))
    joined = "".join(value for value in text.to_pylist() if value is not None).encode()
    return "text", [lengths, joined]


def _integers(column: Any) -> bytes:
    """int64 with the smallest number for null."""
    return np.asarray(column.fill_null(np.iinfo(np.int64).min).to_numpy(), dtype="<i8").tobytes()
