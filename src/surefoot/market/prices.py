"""Bars of one instrument, as everything after reading and checking sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.datetime64]
Column = NDArray[np.float64]


def shown(time: np.datetime64) -> str:
    """A time as short as it can be said."""
    return str(np.datetime_as_string(time, unit="auto"))


@dataclass(frozen=True, eq=False)
class Prices:
    """T checked bars: times strictly increase, prices are finite and positive, low ≤ open, close ≤ high.

    A bar is known only once it has closed: ``closes_at[t]`` is when its close, high, low and volume may be looked at.
    """

    instrument: str
    opens_at: Times
    """[T] datetime64[ns], UTC."""
    closes_at: Times
    """[T] datetime64[ns], UTC; equal to ``opens_at`` where only the moment of a close is known."""
    close: Column
    """[T] float64."""
    open: Column | None = None
    """[T]; None for data that have closes only, and so are high and low."""
    high: Column | None = None
    low: Column | None = None
    volume: Column | None = None
    """[T]; None if the data have none."""
    calendar: str = "none"
    """Which times are expected: a name of `exchange_calendars`, ``fx``, ``crypto`` or ``none``."""
    timezone: str = "UTC"
    """Of the exchange or the file; features of the time of day are in it."""
    source: str = ""
    """Where the bars come from, in words: a path, a data set's name, a generator with its arguments."""
    fingerprint: str = ""
    """sha256 of the file, or of the content where there is none."""
    repairs: tuple[str, ...] = ()
    """What was repaired under which policy, or accepted by name, in words; empty if nothing was."""
    extra: Mapping[str, Column] = field(default_factory=dict)
    """Further columns by name, each [T] and known at ``closes_at[t]``; features can pass them through."""

    def __len__(self) -> int:
        return len(self.close)

    @property
    def has_ohlc(self) -> bool:
        """Whether there are opens, highs and lows."""
        return self.open is not None

    def between(self, start: str | np.datetime64 | None, end: str | np.datetime64 | None) -> slice:
        """The bars that close at or after ``start`` and before ``end``, either of which may be open."""
        first = 0 if start is None else int(np.searchsorted(self.closes_at, np.datetime64(start).astype("M8[ns]")))
        last = len(self) if end is None else int(np.searchsorted(self.closes_at, np.datetime64(end).astype("M8[ns]")))
        return slice(first, max(first, last))

    def cut(self, bars: slice) -> Prices:
        """Only these bars."""
        columns: dict[str, Any] = {
            name: None if (x := getattr(self, name)) is None else x[bars]
            for name in ("opens_at", "closes_at", "open", "high", "low", "close", "volume")
        }
        rest = {
            name: getattr(self, name)
            for name in ("instrument", "calendar", "timezone", "source", "fingerprint", "repairs")
        }
        return Prices(**columns, **rest, extra={name: x[bars] for name, x in self.extra.items()})
