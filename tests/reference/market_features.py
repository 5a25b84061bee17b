"""Features as a reader of their definitions would write them: one bar, one loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from surefoot.market.prices import Prices


def ema(values: Sequence[float], alpha: float) -> float:
    """Of the last ones, newest last, weights down to e⁻⁶."""
    n = math.ceil(6.0 / alpha)
    weights = [(1.0 - alpha) ** i for i in range(n)]
    return sum(w * values[-1 - i] for i, w in enumerate(weights)) / sum(weights)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _std(values: Sequence[float]) -> float:
    return math.sqrt(_mean([(x - _mean(values)) ** 2 for x in values]))


def feature_return(p: Prices, t: int, bars: int) -> float:
    return math.log(p.close[t]) - math.log(p.close[t - bars])


def ema_distance(p: Prices, t: int, period: int) -> float:
    return math.log(p.close[t] / ema(p.close[: t + 1].tolist(), 2 / (period + 1)))


def rsi(p: Prices, t: int, period: int) -> float:
    moves = [p.close[i] - p.close[i - 1] for i in range(1, t + 1)]
    up = ema([max(m, 0.0) for m in moves], 1 / period)
    down = ema([max(-m, 0.0) for m in moves], 1 / period)
    index = 100.0 - 100.0 / (1.0 + up / down)
    return index / 50.0 - 1.0


def atr(p: Prices, t: int, period: int) -> float:
    assert p.high is not None
    assert p.low is not None
    ranges = [
        max(p.high[i] - p.low[i], abs(p.high[i] - p.close[i - 1]), abs(p.low[i] - p.close[i - 1]))
        for i in range(1, t + 1)
    ]
    return ema(ranges, 1 / period) / float(p.close[t])


def macd(p: Prices, t: int, fast: int, slow: int, signal: int) -> float:
    def line(i: int) -> float:
        closes = p.close[: i + 1].tolist()
        return ema(closes, 2 / (fast + 1)) - ema(closes, 2 / (slow + 1))

    n = math.ceil(6.0 / (2 / (signal + 1)))
    lines = [line(i) for i in range(t - n + 1, t + 1)]
    return (lines[-1] - ema(lines, 2 / (signal + 1))) / float(p.close[t])


def bollinger(p: Prices, t: int, period: int, width: float = 2.0) -> float:
    last: list[float] = p.close[t - period + 1 : t + 1].tolist()
    return (last[-1] - _mean(last)) / (width * _std(last))


def volatility(p: Prices, t: int, period: int) -> float:
    return math.sqrt(_mean([math.log(p.close[i] / p.close[i - 1]) ** 2 for i in range(t - period + 1, t + 1)]))


def zscore(p: Prices, t: int, period: int) -> float:
    return 2.0 * bollinger(p, t, period)


def volume_zscore(p: Prices, t: int, period: int) -> float:
    assert p.volume is not None
    last = [math.log1p(v) for v in p.volume[t - period + 1 : t + 1]]
    return (last[-1] - _mean(last)) / _std(last)


TWINS: dict[str, Callable[..., float]] = {
    "return": feature_return,
    "ema_distance": ema_distance,
    "rsi": rsi,
    "atr": atr,
    "macd": macd,
    "bollinger": bollinger,
    "volatility": volatility,
    "zscore": zscore,
    "volume_zscore": volume_zscore,
}
