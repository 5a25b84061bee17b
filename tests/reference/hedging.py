"""The P&L of one seller of a call, day by day in plain Python: the slow twin of `hedging.book`."""

from __future__ import annotations

from collections.abc import Sequence


def pnl_of_path(
    prices: Sequence[Sequence[float]],
    positions: Sequence[Sequence[float]],
    premium: float,
    strike: float,
    cost_rate: float,
) -> float:
    """``prices[t]`` of each instrument on day t = 0 … T, the spot first; ``positions[t]`` after the trade of day t < T.

    Cash only: what is bought is paid, what is left at maturity is sold, and every trade costs.
    """
    cash = premium
    held = [0.0] * len(prices[0])
    for day, wanted in enumerate(positions):
        for i, new in enumerate(wanted):
            cash -= (new - held[i]) * prices[day][i]
            cash -= cost_rate * abs(new - held[i]) * prices[day][i]
            held[i] = new
    for i, price in enumerate(prices[-1]):
        cash += held[i] * price
        cash -= cost_rate * held[i] * price
    return cash - max(prices[-1][0] - strike, 0.0)
