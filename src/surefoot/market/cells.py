"""Cells become float64, and every cell that does not is named."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surefoot.market.extra import needed
from surefoot.market.prices import Column
from surefoot.market.rules import Rows

_PLAIN = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?$"
_ABSENT = frozenset({"", "nan", "na", "n/a", "#n/a", "null", "none", "-", ".", "nat", "<na>"})
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_GROUPED = re.compile(r"[+-]?\d{1,3}([,' \u00a0\u202f]\d{3})+(\.\d*)?")
_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


@dataclass
class Cells:
    """One column of numbers: NaN where there is none, and the positions of the cells that are at fault, by rule."""

    name: str
    values: Column
    faults: dict[str, Rows] = field(default_factory=dict)
    raw: Any = None
    """The source's own column, to quote from."""

    def quote(self, i: int) -> str:
        """The cell as it stands in the source."""
        return repr(self.raw[i].as_py()) if self.raw is not None else repr(float(self.values[i]))

    def kept(self, keep: Any) -> Cells:
        """Only these rows (positions or a mask)."""
        positions = np.arange(len(self.values))[keep]
        place = np.full(len(self.values), -1)
        place[positions] = np.arange(len(positions))
        faults = {rule: np.sort(place[at][place[at] >= 0]) for rule, at in self.faults.items()}
        raw = None if self.raw is None else self.raw.take(needed("pyarrow", "reading prices").array(positions))
        return Cells(self.name, self.values[positions], {k: at for k, at in faults.items() if len(at)}, raw)


def read_cells(name: str, column: Any, decimal: str = ".") -> Cells:
    """A pyarrow column as numbers."""
    pa = needed("pyarrow", "reading prices")
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return _judged(Cells(name, _floats(column.cast(pa.float64(), safe=False)), {}, column))
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        everything = np.arange(len(column), dtype=np.int64)
        return Cells(name, np.full(len(column), np.nan), {"not-a-number": everything}, column)
    return _of_text(pa, name, column, decimal)


def _of_text(pa: Any, name: str, column: Any, decimal: str) -> Cells:
    text = column
    if decimal == ",":
        text = pa.compute.replace_substring(pa.compute.replace_substring(text, ".", ""), ",", ".")
    try:
        text[:100].cast(pa.float64())  # a cast of all that fails is slow
        return _judged(Cells(name, _floats(text.cast(pa.float64())), {}, column))
    except pa.ArrowInvalid:
        pass  # some cell is no plain number: look for all of them
    text = pa.compute.utf8_trim_whitespace(text)
    plain = pa.compute.match_substring_regex(text, _PLAIN).fill_null(False)
    values = _floats(pa.compute.if_else(plain, text, pa.scalar(None, text.type)).cast(pa.float64()))
    odd = np.flatnonzero(~np.asarray(plain.to_numpy(zero_copy_only=False), dtype=np.bool_))
    found: dict[str, list[int]] = {}
    cells = text.take(pa.array(odd)).to_pylist()
    for i, cell in zip(odd.tolist(), cells, strict=True):
        found.setdefault(_fault(cell), []).append(i)
    faults = {rule: np.array(at, dtype=np.int64) for rule, at in found.items()}
    overflow = np.flatnonzero(np.isinf(values))
    if len(overflow):
        faults["infinite"] = np.union1d(overflow, faults.get("infinite", overflow[:0]))
        values[overflow] = np.nan
    return Cells(name, values, faults, column)


def _judged(cells: Cells) -> Cells:
    """Numbers that are none."""
    finite = np.isfinite(cells.values)
    if not finite.all():
        missing, infinite = np.isnan(cells.values), np.isinf(cells.values)
        for rule, mask in (("missing", missing), ("infinite", infinite)):
            if mask.any():
                cells.faults[rule] = np.flatnonzero(mask)
        cells.values[infinite] = np.nan
    return cells


def _fault(cell: str | None) -> str:
    if cell is None or cell.lower() in _ABSENT:
        return "missing"
    if _INFINITE.fullmatch(cell):
        return "infinite"
    if _GROUPED.fullmatch(cell):
        return "thousands-separator"
    return "decimal-comma" if _COMMA.fullmatch(cell) else "not-a-number"


def _floats(column: Any) -> Column:
    return np.array(column.to_numpy(zero_copy_only=False), dtype=np.float64)
