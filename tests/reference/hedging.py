"""The P&L of one seller of a call, and one day of Heston, in plain Python: slow twins of `hedging`."""

from __future__ import annotations

import math
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


def heston_spot(spot: float, before: float, after: float, normal: float, dt: float) -> float:
    """One day of Buehler et al.'s Heston spot (α 1, b 0.04, ρ −0.7, σ 2), given the variance at both ends of it.

    dV = α(b − V)dt + σ√V dB, so ∫√V dB = (V′ − V − αb·dt + α∫V)/σ; the rest of the spot's noise is independent of it.
    """
    integral = (before + after) / 2 * dt
    along = (after - before - 1.0 * 0.04 * dt + 1.0 * integral) / 2.0
    across = math.sqrt(integral) * normal
    return spot * math.exp(-0.5 * integral - 0.7 * along + math.sqrt(1 - 0.7**2) * across)
