"""Bars and environments that the benchmarks of the market step."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np

from surefoot.market.prices import Prices

BARS, EPISODE = 100_000, 1_000
FEATURES = [
    "return(1)",
    "return(5)",
    "return(20)",
    "ema_distance(20)",
    "rsi(14)",
    "macd",
    "bollinger(20)",
    "zscore(60)",
]


def bars(ohlc: bool, n: int = BARS) -> Prices:
    """A random walk of hourly bars."""
    rng = np.random.default_rng(0)
    close = 100.0 * np.exp(np.cumsum(1e-3 * rng.standard_normal(n)))
    times = np.datetime64("2010-01-01", "ns") + (np.arange(n) + 1) * np.timedelta64(1, "h")
    if not ohlc:
        return Prices("WALK", times, times, close)
    opened = np.r_[100.0, close[:-1]]
    high, low = np.maximum(opened, close) * 1.001, np.minimum(opened, close) * 0.999
    return Prices("WALK", times - np.timedelta64(1, "h"), times, close, opened, high, low)


def gym_trading_env(windows: int | None = 32) -> Any:
    """Gym-Trading-Env with eight features."""
    kept = warnings.filters[:]
    environments = import_module("gym_trading_env.environments")  # makes every warning of the process an error
    warnings.filters[:] = kept  # type: ignore[index]  # a list, whatever its stub says
    pd = import_module("pandas")
    prices = bars(ohlc=True)
    frame = pd.DataFrame(
        {"open": prices.open, "high": prices.high, "low": prices.low, "close": prices.close},
        index=pd.DatetimeIndex(prices.closes_at),
    )
    for i in range(8):
        frame[f"feature_{i}"] = frame["close"].pct_change(i + 1)
    return environments.TradingEnv(
        df=frame.dropna(),
        positions=[-1, 0, 1],
        windows=windows,
        trading_fees=1e-4,
        borrow_interest_rate=1e-6,
        max_episode_duration=EPISODE,
        verbose=0,
    )
