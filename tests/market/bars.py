"""Bars for the tests of the market room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.market.prices import Prices

MINUTE = 60 * 10**9
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def make_prices(
    n: int = 400,
    seed: int = 0,
    *,
    ohlc: bool = False,
    volume: bool = False,
    step: int = HOUR,
    start: str = "2020-01-01",
    timezone: str = "UTC",
    volatility: float = 0.01,
    extra: dict[str, Any] | None = None,
) -> Prices:
    """A random walk."""
    rng = np.random.default_rng(seed)
    close = 100.0 * np.exp(np.cumsum(volatility * rng.standard_normal(n)))
    closes_at = np.datetime64(start, "ns") + (np.arange(n) + 1) * np.timedelta64(step, "ns")
    columns: dict[str, Any] = {}
    opens_at = closes_at
    if ohlc:
        opens_at = closes_at - np.timedelta64(step * 3 // 4, "ns")
        opened = np.r_[100.0, close[:-1]] * np.exp(0.2 * volatility * rng.standard_normal(n))
        columns["open"] = opened
        columns["high"] = np.maximum(opened, close) * np.exp(volatility * rng.random(n))
        columns["low"] = np.minimum(opened, close) * np.exp(-volatility * rng.random(n))
    if volume:
        columns["volume"] = rng.integers(0, 1000, n).astype(np.float64)
    return Prices("TEST", opens_at, closes_at, close, timezone=timezone, extra=extra or {}, **columns)


def with_future(prices: Prices, t: int, seed: int) -> Prices:
    """The same bars up to t, others after it, their times included."""
    rng = np.random.default_rng(seed)
    left = len(prices) - t - 1
    gap = np.cumsum(rng.integers(1, 5 * HOUR, left)).astype("timedelta64[ns]")
    columns: dict[str, Any] = {
        "closes_at": np.concatenate([prices.closes_at[: t + 1], prices.closes_at[t] + gap]),
        "opens_at": np.concatenate(
            [prices.opens_at[: t + 1], prices.closes_at[t] + gap - (prices.closes_at - prices.opens_at)[t + 1 :] // 8]
        ),
    }
    low = np.exp(rng.normal(3.0, 1.0, left))
    new = {"low": low, "open": low * 1.1, "close": low * 1.2, "high": low * 1.3, "volume": rng.random(left) * 9.0}
    for name, future in new.items():
        column = getattr(prices, name)
        columns[name] = None if column is None else np.concatenate([column[: t + 1], future])
    extra = {name: np.concatenate([x[: t + 1], rng.random(left)]) for name, x in prices.extra.items()}
    return replace(prices, **columns, extra=extra)
