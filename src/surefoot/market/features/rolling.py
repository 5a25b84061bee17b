"""Sums over the last n bars, added up in one fixed order, so that a value does not depend on what lies around it.

Running sums would be quicker and would carry the rounding of all bars before; these are the same number from any
history that is long enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from surefoot.market.prices import Column

CHUNK = 8192
"""Bars worked on at once, so that what a long window reads again and again stays in the cache."""
FORGOTTEN = 6.0
"""Exponential averages end where their weights have fallen to e⁻⁶ of the first."""


def lagged(x: Column, bars: int) -> Column:
    """x[t − bars], NaN where there is none."""
    found = np.full(len(x), np.nan)
    if bars < len(x):
        found[bars:] = x[: len(x) - bars]
    return found


def weighted_sum(x: Column, weights: Column) -> Column:
    """Σᵢ weights[i]·x[t − i], NaN until there are as many bars as weights."""
    found = np.full(len(x), np.nan)
    n = len(weights)
    for low, high in _chunks(len(x), n):
        total = weights[n - 1] * x[low - n + 1 : high - n + 1]
        for i in range(n - 2, -1, -1):
            total += weights[i] * x[low - i : high - i]
        found[low:high] = total
    return found


def mean(x: Column, n: int) -> Column:
    """Mean of the last n."""
    return weighted_sum(x, np.ones(n)) / n


def std(x: Column, center: Column, n: int) -> Column:
    """Root of the mean squared distance of the last n from ``center[t]``."""
    found = np.full(len(x), np.nan)
    for low, high in _chunks(len(x), n):
        middle = center[low:high]
        total = np.zeros(high - low)
        for i in range(n - 1, -1, -1):
            away = x[low - i : high - i] - middle
            total += away * away
        found[low:high] = np.sqrt(total / n)
    return found


def zscore(x: Column, n: int) -> Column:
    """(x − mean) / std of the last n; 0 where they are all alike."""
    center = mean(x, n)
    return ratio(x - center, std(x, center, n), 0.0)


def decay_bars(alpha: float) -> int:
    """Bars that an exponential average with this weight of the newest looks at."""
    return math.ceil(FORGOTTEN / alpha)


def decaying_mean(x: Column, alpha: float) -> Column:
    """Exponential average: weights α(1 − α)ⁱ on the last `decay_bars`, scaled to sum to one."""
    weights = (1.0 - alpha) ** np.arange(decay_bars(alpha), dtype=np.float64)
    return weighted_sum(x, weights / weights.sum())


def ema_alpha(period: int) -> float:
    """Weight of the newest in an exponential average of ``period`` bars."""
    return 2.0 / (period + 1.0)


def ratio(above: Column, below: Column, otherwise: float) -> Column:
    """above / below, and ``otherwise`` where below is 0."""
    found = np.full(len(above), otherwise)
    np.divide(above, below, out=found, where=below != 0.0)
    return found


def _chunks(length: int, n: int) -> Iterator[tuple[int, int]]:
    for low in range(n - 1, length, CHUNK):
        yield low, min(length, low + CHUNK)
