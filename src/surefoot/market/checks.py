"""What values and stamps of bars must be, and what in them is suspicious. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surefoot.market.cells import Cells
from surefoot.market.prices import Column, Times, shown
from surefoot.market.rules import Findings, Rows

if TYPE_CHECKING:
    from surefoot.market.repairs import Bars

SPLITS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 100)
"""Ratios of splits; 3 for 2 is left out, as oil fell by a third in a day (1991) without one."""
STALE_BARS = 50
_PRICES = ("open", "high", "low", "close")
Mask = NDArray[np.bool_]


def value_faults(values: Mapping[str, Column]) -> dict[tuple[str, str], Mask]:
    """(rule, role) and the rows that break it, by role of the columns; NaN breaks nothing here."""
    found = {("non-positive", role): values[role] <= 0 for role in _PRICES if role in values}
    if "volume" in values:
        found["negative-volume", "volume"] = values["volume"] < 0
    if "high" in values:
        high, low = values["high"], values["low"]
        crossed = high < low
        found["high-below-low", "high"] = crossed
        for role in ("open", "close"):
            found["outside-range", role] = ~crossed & ((values[role] > high) | (values[role] < low))
    return found


def invalid_rows(values: Mapping[str, Column]) -> Mask:
    """Rows that no market can have made."""
    mask = np.zeros(len(values["close"]), dtype=np.bool_)
    for fault in value_faults(values).values():
        mask |= fault
    return mask


def check_cells(bars: Bars, findings: Findings) -> None:
    """Cells and stamps that could not be read."""
    for cells in bars.cells.values():
        for rule, at in cells.faults.items():
            findings.add_rows(rule, bars.rows[at], cells.name, _quoting(cells, at))


def check_values(bars: Bars, findings: Findings) -> None:
    """Prices and volumes, row by row."""
    values = {role: cells.values for role, cells in bars.cells.items()}
    names = {role: cells.name for role, cells in bars.cells.items()}

    for (rule, role), mask in value_faults(values).items():
        at = np.flatnonzero(mask)
        findings.add_rows(rule, bars.rows[at], names[role], _describing(values, at, rule, role))
    if "volume" in values:
        _check_volume(values["volume"], bars.rows, names["volume"], findings)


def _quoting(cells: Cells, at: Rows) -> Callable[[int], str]:
    return lambda i: f"the cell is {cells.quote(int(at[i]))}"


def _describing(values: Mapping[str, Column], at: Rows, rule: str, role: str) -> Callable[[int], str]:
    def describe(i: int) -> str:
        shown = {key: f"{column[at[i]]:.10g}" for key, column in values.items()}
        if rule == "high-below-low":
            return f"the high {shown['high']} is below the low {shown['low']}"
        if rule == "outside-range":
            return f"the {role} {shown[role]} is outside {shown['low']} to {shown['high']}"
        return f"the {role} is {shown[role]}"

    return describe


def _check_volume(volume: Column, rows: Rows, name: str, findings: Findings) -> None:
    zero = np.flatnonzero(volume == 0)
    if len(zero) == len(volume):
        findings.add("zero-volume", "the volume is zero in every row", column=name)
    else:
        findings.add_rows("zero-volume", rows[zero], name, lambda _: "the volume is zero")


def check_order(times: Times, rows: Rows, name: str, findings: Findings) -> None:
    """Stamps must increase; a file that runs backwards is one problem, not one for each row."""
    known = np.flatnonzero(~np.isnat(times))
    steps = np.diff(times[known]).astype(np.int64)
    order = known[np.argsort(times[known], kind="stable")]
    repeats = np.sort(order[1:][np.diff(times[order]).astype(np.int64) == 0])
    findings.add_rows(
        "duplicate-stamp", rows[repeats], name, lambda i: f"{shown(times[repeats[i]])} stands above already"
    )
    back = np.flatnonzero(steps < 0) + 1
    if len(back) > 1 and len(back) == np.count_nonzero(steps):
        findings.add("unsorted", "the rows run from the newest to the oldest", column=name)
    else:
        findings.add_rows(
            "unsorted",
            rows[known[back]],
            name,
            lambda i: f"{shown(times[known[back[i]]])} comes after {shown(times[known[back[i] - 1]])}",
        )


def check_future(times: Times, rows: Rows, name: str, now: np.datetime64, findings: Findings) -> None:
    """No bar can be known before it was."""
    late = np.flatnonzero(times > now)
    findings.add_rows(
        "future-bar", rows[late], name, lambda i: f"{shown(times[late[i]])} is later than now, {shown(now)}"
    )


def check_jumps(close: Column, opens: Column | None, rows: Rows, name: str, findings: Findings) -> None:
    """Moves that look like a split or a wrong tick: far beyond the usual size of a move in this series."""
    if len(close) < 4:
        return
    moves = np.diff(np.log(close))
    usual = 1.4826 * float(np.median(np.abs(moves))) or float(np.std(moves)) or 1.0
    back = np.zeros(len(moves), dtype=np.bool_)
    back[:-1] = np.abs(moves[:-1] + moves[1:]) < 0.25 * np.abs(moves[:-1])
    spikes = np.flatnonzero(back & (np.abs(moves) > max(25 * usual, 0.01)))
    findings.add_rows("spike", rows[spikes + 1], name, lambda i: _spike(close, int(spikes[i]) + 1))
    jumps = moves if opens is None else np.log(opens[1:]) - np.log(close[:-1])
    ratios = np.log(np.array(SPLITS))
    nearest = np.abs(np.abs(jumps)[:, None] - ratios) if len(jumps) < 10_000 else _nearest(np.abs(jumps), ratios)
    close_to = nearest.min(axis=1) < min(max(0.02, 2 * usual), 0.05)
    reverts = np.zeros(len(moves), dtype=np.bool_)
    reverts[spikes] = True
    reverts[1:] |= reverts[:-1]
    stays = np.sign(moves) == np.sign(jumps)
    splits = np.flatnonzero(close_to & stays & ~reverts & (np.abs(jumps) > 15 * usual))
    findings.add_rows("likely-split", rows[splits + 1], name, lambda i: _split(float(jumps[splits[i]])))


def _nearest(sizes: Column, ratios: Column) -> Column:
    """Distance to the nearest ratio, [n, 1], without a table of all distances."""
    right = np.clip(np.searchsorted(ratios, sizes), 1, len(ratios) - 1)
    return np.minimum(np.abs(sizes - ratios[right - 1]), np.abs(sizes - ratios[right]))[:, None]


def _spike(close: Column, i: int) -> str:
    return f"the close is {close[i]:.10g} between {close[i - 1]:.10g} and {close[i + 1]:.10g}"


def _split(jump: float) -> str:
    ratio = min(SPLITS, key=lambda split: abs(abs(jump) - float(np.log(split))))
    word = f"{ratio:g} for 1" if jump < 0 else f"1 for {ratio:g}"
    return f"the price jumped by the factor {np.exp(jump):.4g}, like a split of {word}"


def check_stale(close: Column, rows: Rows, name: str, findings: Findings) -> None:
    """Many equal closes in a row: the feed may have hung."""
    changes = np.flatnonzero(np.diff(close) != 0) + 1
    starts = np.concatenate([[0], changes])
    lengths = np.diff(np.concatenate([starts, [len(close)]]))
    at = np.flatnonzero(lengths >= STALE_BARS)
    findings.add_rows("stale", rows[starts[at]], name, lambda i: f"{lengths[at[i]]} closes in a row are equal")
