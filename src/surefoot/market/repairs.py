"""Repairs of bars, each under a name that the user asks for and that is recorded. None looks ahead.

| name | what it does |
|---|---|
| drop_missing | leaves out rows with an empty cell |
| forward_fill | an empty price becomes the last close before it, an empty volume zero; leading ones are left out |
| drop_invalid | leaves out rows no market can have made: no number or stamp, price ≤ 0, high < low, close outside |
| sort | orders rows by their stamps |
| drop_duplicates | leaves out rows that repeat an earlier one of the same stamp in every column |
| keep_last | of several rows of one stamp keeps the one written last |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import ConfigError
from surefoot.market.cells import Cells
from surefoot.market.checks import invalid_rows
from surefoot.market.columns import nearest
from surefoot.market.prices import Times
from surefoot.market.rules import Rows

POLICIES = ("drop_missing", "forward_fill", "drop_invalid", "sort", "drop_duplicates", "keep_last")
"""In the order in which they are applied, whatever order they are asked in."""
_CELL_FAULTS = ("not-a-number", "infinite", "thousands-separator", "decimal-comma")
PRICES = ("open", "high", "low", "close")


@dataclass(frozen=True)
class Bars:
    """Rows between reading and checking."""

    rows: Rows
    times: Times
    """UTC; NaT where the stamp could not be read."""
    cells: Mapping[str, Cells]
    """By role, and further columns by ``extra:`` and their name."""
    stamp_faults: Mapping[str, Rows]

    def __len__(self) -> int:
        return len(self.rows)

    def kept(self, keep: NDArray[np.bool_] | Rows) -> Bars:
        """Only these rows (a mask), or the rows in this order (positions)."""
        positions = np.arange(len(self))[keep]
        place = np.full(len(self), -1)
        place[positions] = np.arange(len(positions))
        faults = {rule: np.sort(place[at][place[at] >= 0]) for rule, at in self.stamp_faults.items()}
        return Bars(
            self.rows[positions],
            self.times[positions],
            {role: cells.kept(positions) for role, cells in self.cells.items()},
            {rule: at for rule, at in faults.items() if len(at)},
        )


def check_policies(asked: Sequence[str]) -> tuple[str, ...]:
    """The asked policies in the order of application."""
    if isinstance(asked, str):
        asked = (asked,)
    for name in asked:
        if name not in POLICIES:
            known = ", ".join(POLICIES)
            raise ConfigError(f"no repair is called {name!r}{nearest(name, POLICIES)}; there are {known}")
    if {"drop_missing", "forward_fill"} <= set(asked):
        raise ConfigError("repair: drop_missing and forward_fill say two things about an empty cell; choose one")
    return tuple(name for name in POLICIES if name in asked)


def apply(bars: Bars, policies: Sequence[str]) -> tuple[Bars, tuple[str, ...]]:
    """The repaired bars, and what was done in words."""
    done: list[str] = []
    for name in policies:
        before = len(bars)
        if name == "forward_fill":
            bars, filled = _forward_fill(bars)
            if filled or len(bars) < before:
                done.append(f"forward_fill: {filled} cells filled, {before - len(bars)} leading rows left out")
        elif name == "sort":
            order = np.argsort(bars.times, kind="stable")
            moved = int((order != np.arange(before)).sum())
            if moved:
                bars = bars.kept(order)
                done.append(f"sort: {moved} rows moved")
        else:
            bars = bars.kept(~_unwanted(bars, name))
            if len(bars) < before:
                done.append(f"{name}: {before - len(bars)} rows left out")
    return bars, tuple(done)


def _unwanted(bars: Bars, name: str) -> NDArray[np.bool_]:
    if name == "drop_missing":
        return _with_faults(bars, ("missing",))
    if name == "drop_invalid":
        wrong = _with_faults(bars, _CELL_FAULTS) | invalid_rows(
            {role: cells.values for role, cells in bars.cells.items()}
        )
        for at in bars.stamp_faults.values():
            wrong[at] = True
        return wrong
    return _repeated(bars, identical=name == "drop_duplicates")


def _with_faults(bars: Bars, rules: Sequence[str]) -> NDArray[np.bool_]:
    mask = np.zeros(len(bars), dtype=np.bool_)
    for cells in bars.cells.values():
        for rule in rules:
            mask[cells.faults.get(rule, np.zeros(0, np.int64))] = True
    return mask


def _repeated(bars: Bars, identical: bool) -> NDArray[np.bool_]:
    """Rows that repeat an earlier one exactly, or rows that a later one of the same stamp replaces."""
    order = np.argsort(bars.times, kind="stable")
    times = bars.times[order]
    same = np.zeros(len(bars), dtype=np.bool_)
    same[1:] = times[1:] == times[:-1]
    mask = np.zeros(len(bars), dtype=np.bool_)
    if identical:
        starts = np.maximum.accumulate(np.where(same, 0, np.arange(len(bars))))
        for cells in bars.cells.values():
            values = cells.values[order]
            same &= (values == values[starts]) | (np.isnan(values) & np.isnan(values[starts]))
        mask[order[same]] = True
    else:
        mask[order[:-1][same[1:]]] = True
    return mask


def _forward_fill(bars: Bars) -> tuple[Bars, int]:
    empty = np.zeros(len(bars), dtype=np.bool_)
    for role in PRICES:
        if role in bars.cells:
            empty[bars.cells[role].faults.get("missing", np.zeros(0, np.int64))] = True
    sound = ~np.isnan(bars.cells["close"].values)
    last = np.maximum.accumulate(np.where(sound & ~empty, np.arange(len(bars)), -1))
    filled = 0
    cells: dict[str, Cells] = {}
    for role, column in bars.cells.items():
        at = column.faults.get("missing", np.zeros(0, np.int64))
        if role in PRICES:
            at = np.flatnonzero(empty)  # a bar without one of its prices is a bar without trade
        values = column.values.copy()
        if role in PRICES:
            values[at] = bars.cells["close"].values[last[at]]
        elif role == "volume":
            values[at] = 0.0
        else:
            cells[role] = column
            continue
        filled += len(at)
        cells[role] = replace(column, values=values, faults={k: v for k, v in column.faults.items() if k != "missing"})
    kept = replace(bars, cells=cells)
    leading = last < 0
    if leading.any():
        filled -= sum(int(leading[np.flatnonzero(empty)].sum()) for role in PRICES if role in cells)
        kept = kept.kept(~leading)
    return kept, filled
