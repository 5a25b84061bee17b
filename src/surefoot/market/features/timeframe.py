"""A feature of longer bars, seen only once they have closed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import ConfigError
from surefoot.market.features.base import Feature
from surefoot.market.local_time import to_local
from surefoot.market.prices import Column, Prices

UNITS = {"min": 60, "h": 3_600, "d": 86_400}
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Timeframe(Feature):
    """``inner`` on bars of ``timeframe``, which end at multiples of it, in UTC; from one day on in local time.

    The bar that ends at moment m takes in what closed after the previous end and up to m, and is visible from the first
    bar on that closes at m or later. The first longer bar may have begun before the data do, and is left out.
    """

    name: ClassVar[str] = "timeframe"
    inner: Feature
    timeframe: str

    def __post_init__(self) -> None:
        seconds(self.timeframe)

    @property
    def lookback(self) -> int:
        """In longer bars."""
        return self.inner.lookback

    @property
    def title(self) -> str:
        return f"{self.inner.title}@{self.timeframe}"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"{column}@{self.timeframe}" for column in self.inner.columns)

    def require(self, prices: Prices) -> None:
        self.inner.require(prices)

    def compute(self, prices: Prices) -> list[Column]:
        codes, done = self._codes(prices)
        starts = _starts(codes)
        longer = _aggregate(prices, starts)
        # Entry j of what is computed belongs to group j + 1: the first group is left out.
        last = np.searchsorted(codes[starts], done, side="right") - 2
        visible = last >= 0
        columns = []
        for column in self.inner.compute(longer):
            found = np.full(len(prices), np.nan)
            found[visible] = column[last[visible]]
            columns.append(found)
        return columns

    def bars_needed(self, prices: Prices) -> int:
        codes, done = self._codes(prices)
        starts = _starts(codes)
        last = int(np.searchsorted(codes[starts], done[-1], side="right")) - 1
        first = last - self.inner.lookback
        # One bar more, of the group before: it is the one that is left out.
        return len(prices) - int(starts[first]) + 1 if first >= 1 else len(prices)

    def _codes(self, prices: Prices) -> tuple[Codes, Codes]:
        """For each bar the longer bar that it belongs to, and the last one that is over at its close."""
        length = seconds(self.timeframe) * 1_000_000_000
        times = prices.closes_at
        moments = (to_local(times, prices.timezone) if length >= 86_400 * 10**9 else times).astype(np.int64)
        # Clocks that are set back must not open a longer bar again that was over.
        return np.maximum.accumulate(-(-moments // length)), np.maximum.accumulate(moments // length)


def seconds(timeframe: str) -> int:
    """How long ``15min``, ``4h`` or ``1d`` is."""
    found = re.fullmatch(r"([1-9]\d*)(min|h|d)", str(timeframe))
    if found is None:
        raise ConfigError(f"the timeframe {timeframe!r} cannot be read: write it as 15min, 4h or 1d")
    return int(found[1]) * UNITS[found[2]]


def _starts(codes: Codes) -> Codes:
    """Where each longer bar begins."""
    return np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])


def _aggregate(prices: Prices, starts: Codes) -> Prices:
    """Longer bars, without the first one."""
    ends = np.r_[starts[1:], len(prices)] - 1
    columns: dict[str, Any] = {"open": None, "high": None, "low": None, "volume": None}
    if prices.open is not None and prices.high is not None and prices.low is not None:
        columns["open"] = prices.open[starts][1:]
        columns["high"] = np.maximum.reduceat(prices.high, starts)[1:]
        columns["low"] = np.minimum.reduceat(prices.low, starts)[1:]
    if prices.volume is not None:
        columns["volume"] = np.add.reduceat(prices.volume, starts)[1:]
    return Prices(
        instrument=prices.instrument,
        opens_at=prices.opens_at[starts][1:],
        closes_at=prices.closes_at[ends][1:],
        close=prices.close[ends][1:],
        timezone=prices.timezone,
        extra={name: x[ends][1:] for name, x in prices.extra.items()},
        **columns,
    )
