"""Seeded series whose best policy is known or bounded. Never real, and their source says so.

Every generator gives bars of equal length, around the clock. With ``ohlc=True`` a bar opens where the one before it
closed, so that an order decided at a close is filled at that price; with closes only it is filled one close later.
Accordingly "the next return" that a trader can still earn lies ``delay`` bars ahead: 0 with opens, 1 without.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import ConfigError
from surefoot.market import optimum
from surefoot.market.columns import nearest
from surefoot.market.optimum import LogReturns, Optimum
from surefoot.market.prices import Column, Prices

MAX_BARS = 20_000_000
LARGEST_LOG = 600.0
"""Of a price; float64 ends near 709."""
PREFIX = "generated:"
_START = np.datetime64("2000-01-03", "ns")
_TICKS = 16
"""Steps inside a bar from which its high and low come."""


def gbm(*, seed: int, bars: int = 5000, drift: float = 2e-4, volatility: float = 0.01, ohlc: bool = False) -> Prices:
    """Geometric Brownian motion: log returns N(μ − σ²/2, σ²) for drift μ and volatility σ per bar."""
    _check(bars, volatility=volatility)
    noise = np.random.default_rng(seed).normal(size=bars - 1)
    return _prices("gbm", locals(), drift - volatility**2 / 2 + volatility * noise)


def gbm_optimum(*, drift: float = 2e-4, volatility: float = 0.01, low: float = -1.0, high: float = 1.0) -> Optimum:
    """One position for ever, about μ/σ² where the limits allow."""
    return optimum.constant(_gbm_law(drift, volatility), low, high)


def no_signal(*, seed: int, bars: int = 5000, volatility: float = 0.01, ohlc: bool = False) -> Prices:
    """A martingale: E[R] = 0 for every simple return, so that no position has a positive growth."""
    _check(bars, volatility=volatility)
    noise = np.random.default_rng(seed).normal(size=bars - 1)
    return _prices("no_signal", locals(), -(volatility**2) / 2 + volatility * noise)


def no_signal_optimum() -> Optimum:
    """Not to trade: E[log(1 + f·R)] ≤ log(1 + f·E[R]) = 0, by Jensen."""
    return Optimum(0.0, "exact", "none")


def mean_reversion(
    *, seed: int, bars: int = 5000, persistence: float = 0.98, volatility: float = 0.01, ohlc: bool = False
) -> Prices:
    """The log price is an Ornstein-Uhlenbeck process seen at bars, x' = φ·x + σ·ε around log 100, from its stationary
    distribution on."""
    _check(bars, volatility=volatility)
    _in("persistence", persistence, 0.0, 1.0)
    rng = np.random.default_rng(seed)
    level = np.empty(bars)
    level[0] = rng.normal() * volatility / np.sqrt(1 - persistence**2)
    steps = volatility * rng.normal(size=bars - 1)
    for t in range(bars - 1):
        level[t + 1] = persistence * level[t] + steps[t]
    return _prices("mean_reversion", locals(), np.diff(level), first=100.0 * float(np.exp(level[0])))


def mean_reversion_optimum(
    *, persistence: float = 0.98, volatility: float = 0.01, delay: int = 0, low: float = -1.0, high: float = 1.0
) -> Optimum:
    """Given x the next return is N((φ − 1)·x, σ²); one bar later N((φ − 1)·φ·x, σ²·(1 + (φ − 1)²)).
    The mean of the best growth over the stationary distribution N(0, σ²/(1 − φ²)) of x."""
    nodes, weights = optimum.normal_nodes()
    x = nodes * volatility / np.sqrt(1 - persistence**2)
    pull = (persistence - 1) * persistence**delay
    std = volatility * np.sqrt(1 + (delay > 0) * (persistence - 1) ** 2)
    distributions = [LogReturns([1.0], [pull * level], [std]) for level in x]
    return optimum.over_states(weights, distributions, "exact", "against the distance from the mean", low, high)


def regime_switching(
    *, seed: int, bars: int = 5000, drift: float = 1e-3, volatility: float = 0.01, persistence: float = 0.99,
    ohlc: bool = False,
) -> Prices:  # fmt: skip
    """Two regimes of drift +μ and −μ that stay with probability p from bar to bar; which one is not shown."""
    _check(bars, volatility=volatility)
    _in("persistence", persistence, 0.0, 1.0)
    rng = np.random.default_rng(seed)
    regime = _two_states(rng, bars - 1, persistence)
    return _prices(
        "regime_switching", locals(), drift * regime - volatility**2 / 2 + volatility * rng.normal(size=bars - 1)
    )


def regime_switching_optimum(
    *, drift: float = 1e-3, volatility: float = 0.01, low: float = -1.0, high: float = 1.0
) -> Optimum:
    """Whoever knew the regime of the next bar; a trader who must infer it has less."""
    distributions = [_gbm_law(drift, volatility), _gbm_law(-drift, volatility)]
    return optimum.over_states([0.5, 0.5], distributions, "upper bound", "with the regime, if it were known", low, high)


def crash_prone(
    *, seed: int, bars: int = 5000, drift: float = 1e-3, volatility: float = 0.005, crash_chance: float = 0.005,
    crash_size: float = 0.1, ohlc: bool = False,
) -> Prices:  # fmt: skip
    """A calm rise with rare falls: a log return of N(μ − σ²/2, σ²), less ``crash_size`` with ``crash_chance``."""
    _check(bars, volatility=volatility)
    _in("crash_chance", crash_chance, 0.0, 1.0)
    rng = np.random.default_rng(seed)
    falls = crash_size * (rng.random(bars - 1) < crash_chance)
    return _prices("crash_prone", locals(), drift - volatility**2 / 2 + volatility * rng.normal(size=bars - 1) - falls)


def crash_prone_returns(
    *, drift: float = 1e-3, volatility: float = 0.005, crash_chance: float = 0.005, crash_size: float = 0.1
) -> LogReturns:
    """The distribution of one bar's return: growth, best position and CVaR of any fixed position follow from it."""
    mean = drift - volatility**2 / 2
    return LogReturns([1 - crash_chance, crash_chance], [mean, mean - crash_size], [volatility, volatility])


def crash_prone_optimum(*, low: float = -1.0, high: float = 1.0, **distribution: float) -> Optimum:
    """One position for ever, as nothing tells of a fall beforehand."""
    return optimum.constant(crash_prone_returns(**distribution), low, high)


def garch(
    *, seed: int, bars: int = 5000, drift: float = 2e-4, volatility: float = 0.01, alpha: float = 0.08,
    beta: float = 0.9, ohlc: bool = False,
) -> Prices:  # fmt: skip
    """GARCH(1, 1): h' = σ²·(1 − α − β) + α·h·z² + β·h, log returns μ − h/2 + √h·z, so that E[R] is the same always."""
    _check(bars, volatility=volatility)
    _in("alpha + beta", alpha + beta, 0.0, 1.0)
    noise = np.random.default_rng(seed).normal(size=bars - 1)
    variance = np.empty(bars - 1)
    h = volatility**2
    for t in range(bars - 1):
        variance[t] = h
        h = volatility**2 * (1 - alpha - beta) + h * (alpha * noise[t] ** 2 + beta)
    return _prices("garch", locals(), drift - variance / 2 + np.sqrt(variance) * noise)


def garch_optimum(*, drift: float = 2e-4, volatility: float = 0.01, low: float = -1.0, high: float = 1.0) -> Optimum:
    """The growth of the best position that ignores how the variance moves; one that follows it has more.

    E[log(1 + f·R)] ≈ f·μ − f²·E[h]/2 for small returns, and E[h] = σ²: as for geometric Brownian motion."""
    known = optimum.constant(_gbm_law(drift, volatility), low, high)
    return Optimum(known.growth, "lower bound", known.position)


def planted_signal(
    *, seed: int, bars: int = 5000, strength: float = 2e-3, volatility: float = 5e-3, persistence: float = 0.9,
    ohlc: bool = False,
) -> Prices:  # fmt: skip
    """A column ``signal`` of ±1, known at the close, tells the sign of the drift of the return that an order decided
    at that close still earns: the next bar's with opens, the one after the next without.

    The signal stays with probability p; the log return it tells of is N(±strength − σ²/2, σ²)."""
    _check(bars, volatility=volatility)
    _in("persistence", persistence, 0.0, 1.0)
    rng = np.random.default_rng(seed)
    delay = 0 if ohlc else 1
    signal = _two_states(rng, bars + 1, persistence)  # without opens, that of the first return was known too early
    told = signal[: bars - 1]
    returns = strength * told - volatility**2 / 2 + volatility * rng.normal(size=bars - 1)
    return _prices("planted_signal", locals(), returns, extra={"signal": signal[delay:][:bars].copy()})


def planted_signal_optimum(
    *, strength: float = 2e-3, volatility: float = 5e-3, low: float = -1.0, high: float = 1.0
) -> Optimum:
    """The best position given the signal; without costs it is reached, with costs nobody does better."""
    distributions = [_gbm_law(strength, volatility), _gbm_law(-strength, volatility)]
    return optimum.over_states([0.5, 0.5], distributions, "exact", "with the signal", low, high)


def planted_signal_follower(
    *, strength: float = 2e-3, volatility: float = 5e-3, persistence: float = 0.9, cost_rate: float = 0.0
) -> Optimum:
    """Growth of whoever holds ±1 of equity with the signal and pays ``cost_rate`` of what is traded.

    A long position of 1 needs no rebalancing; a short one of 1 after a return R trades 2·|R|/(1 − R) of equity; a
    change of sign trades 2 before costs, and what was gained or lost besides: from +1 to −1 exactly 2, from −1 to +1
    (2 at an equity of 1 − R, short 1 + R) 2/(1 − R). Each cost c takes log(1 − c), with c by the equity before it."""
    grown = 0.0
    for sign in (1, -1):
        returns, chances = _gbm_law(sign * strength, volatility).points()
        flip = 2.0 if sign == 1 else 2.0 / (1 - returns)
        stay = 0.0 if sign == 1 else 2 * np.abs(returns) / (1 - returns)
        paid = persistence * np.log1p(-cost_rate * stay) + (1 - persistence) * np.log1p(-cost_rate * flip)
        grown += 0.5 * float(chances @ (np.log1p(sign * returns) + paid))
    return Optimum(grown, "lower bound", "±1 with the signal")


GENERATORS: dict[str, Callable[..., Prices]] = {
    make.__name__: make
    for make in (gbm, mean_reversion, regime_switching, crash_prone, garch, planted_signal, no_signal)
}


def is_generated(source: str) -> bool:
    """Whether a text asks for a generated series."""
    return source.startswith(PREFIX)


def from_text(source: str) -> Prices:
    """``generated:gbm(seed=0, bars=5000)``: a name and numbers, nothing that could be code."""
    match = re.fullmatch(r"(\w+)\((.*)\)", source.removeprefix(PREFIX).strip())
    if match is None:
        raise ConfigError(f"{source!r} is not of the form generated:NAME(seed=0, …)")
    name, inside = match.groups()
    if name not in GENERATORS:
        raise ConfigError(f"no generator is called {name!r}{nearest(name, list(GENERATORS))}; {', '.join(GENERATORS)}")
    known = inspect.signature(GENERATORS[name]).parameters
    arguments: dict[str, Any] = {}
    for part in filter(None, map(str.strip, inside.split(","))):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or key not in known:
            raise ConfigError(f"{name} does not take {part!r}{nearest(key, list(known))}; it takes {', '.join(known)}")
        if key in arguments:
            raise ConfigError(f"{name}: {key} is given twice")
        arguments[key] = _literal(name, key, value, known[key].annotation)
    if "seed" not in arguments:
        raise ConfigError(f"{name}: say seed=…, so that the series is the same next time")
    return GENERATORS[name](**arguments)


def _literal(name: str, key: str, value: str, kind: str) -> int | float | bool:
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = None
    fits = {
        "int": isinstance(found, int) and not isinstance(found, bool),
        "float": isinstance(found, int | float) and not isinstance(found, bool),
        "bool": isinstance(found, bool),
    }[kind]
    if not fits:
        raise ConfigError(f"{name}: {key}={value} is not of type {kind}")
    return cast(int | float | bool, found)


def _gbm_law(drift: float, volatility: float) -> LogReturns:
    return LogReturns([1.0], [drift - volatility**2 / 2], [volatility])


def _two_states(rng: np.random.Generator, count: int, persistence: float) -> Column:
    """±1, each the sign before it with probability ``persistence``."""
    turns = np.where(rng.random(count) < persistence, 1.0, -1.0)
    turns[0] = 1.0 if rng.random() < 0.5 else -1.0
    states: Column = np.cumprod(turns).astype(np.float64)
    return states


def _check(bars: int, volatility: float) -> None:
    if not 2 <= bars <= MAX_BARS:
        raise ConfigError(f"bars={bars} must be from 2 to {MAX_BARS:,}")
    if not 0 < volatility < 1:
        raise ConfigError(f"volatility={volatility} must be above 0 and below 1, per bar")


def _in(name: str, value: float, low: float, high: float) -> None:
    if not low <= value < high:
        raise ConfigError(f"{name}={value} must be at least {low} and below {high}")


def _prices(
    name: str,
    given: dict[str, Any],
    returns: NDArray[np.float64],
    first: float = 100.0,
    extra: dict[str, Column] | None = None,
) -> Prices:
    """Bars from log returns; the source names the generator, its arguments and its seed."""
    known = inspect.signature(GENERATORS[name]).parameters
    words = ", ".join(f"{key}={given[key]!r}" for key in known)
    source = f"{PREFIX}{name}({words})"
    log_close = np.log(first) + np.concatenate([[0.0], np.cumsum(returns)])
    if np.abs(log_close).max() > LARGEST_LOG:
        raise ConfigError(f"{source}: the price grows or falls beyond what a number holds; fewer bars, or less drift")
    close = np.exp(log_close)
    bars = len(close)
    hour = np.timedelta64(1, "h")
    closes_at = _START + hour * np.arange(1, bars + 1)
    values: dict[str, Any] = {"opens_at": closes_at}
    if given["ohlc"]:
        values = {"opens_at": closes_at - hour, **_bodies(close, given["volatility"], given["seed"])}
    digest = hashlib.sha256(f"surefoot generator 1 {source}".encode())
    for column in (close, *(extra or {}).values()):
        digest.update(np.ascontiguousarray(column, dtype="<f8").tobytes())
    return Prices(
        f"synthetic {name}", closes_at=closes_at, close=close, calendar="crypto", source=source,
        fingerprint=digest.hexdigest(), extra=extra or {}, **values,
    )  # fmt: skip


def _bodies(close: Column, volatility: float, seed: int) -> dict[str, Column]:
    """Opens at the close before, highs and lows of a random walk pinned at both ends (a Brownian bridge)."""
    opens = np.concatenate([close[:1], close[:-1]])
    rng = np.random.default_rng([seed, 1])  # apart from the one of the closes, which are the same without opens
    high, low = np.maximum(opens, close), np.minimum(opens, close)
    walk = np.zeros(len(close))
    steps = rng.normal(scale=volatility / np.sqrt(_TICKS), size=(_TICKS, len(close)))
    total = steps.sum(axis=0)
    body = np.log(close) - np.log(opens)
    for i in range(_TICKS - 1):
        walk = walk + steps[i]
        price = opens * np.exp(walk + (i + 1) / _TICKS * (body - total))
        high, low = np.maximum(high, price), np.minimum(low, price)
    return {"open": opens, "high": high, "low": low}
