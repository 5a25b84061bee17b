"""One account on one series, written to be read: plain floats, one bar after the other, sizes found by bisection."""

from __future__ import annotations

from dataclasses import dataclass, field

from surefoot.market.costs import Costs
from surefoot.market.prices import Prices

YEAR_NS = 365 * 86_400 * 10**9


def commission(size: float, price: float, costs: Costs) -> float:
    """Of a trade of this value."""
    if size == 0.0:
        return 0.0
    by_value = size * costs.commission_bps / 10_000 + size / price * costs.commission_per_unit
    return max(by_value, costs.commission_minimum)


def trade_fees(size: float, price: float, costs: Costs) -> dict[str, float]:
    return {
        "spread": size * costs.half_spread_bps / 10_000,
        "commission": commission(size, price, costs),
        "slippage": size * costs.slippage_bps / 10_000,
    }


def trade_to(target: float, equity: float, value: float, price: float, costs: Costs) -> float:
    """Signed value to trade after which the position is ``target`` of the equity that the fees have left."""
    wanted = target * equity - value
    if wanted == 0.0 or (abs(wanted) <= costs.commission_minimum and target != 0.0):
        return 0.0  # nothing to do, or not worth its commission
    if target == 0.0:
        return -value  # all of it, so that nothing is left by rounding
    side = 1.0 if target * equity > value else -1.0

    def short_of(size: float) -> float:
        left = equity - sum(trade_fees(size, price, costs).values())
        return side * (target * left - (value + side * size))

    low, high = 0.0, 4.0 * (abs(equity) + abs(value)) + 1.0
    for _ in range(90):
        middle = (low + high) / 2
        low, high = (middle, high) if short_of(middle) > 0.0 else (low, middle)
    return side * (low + high) / 2


@dataclass
class Account:
    """Cash and units of one account; every fee in a line of its own."""

    prices: Prices
    costs: Costs
    cash: float
    bar: int
    units: float = 0.0
    fees: dict[str, float] = field(default_factory=dict)

    def equity(self) -> float:
        return self.cash + self.units * float(self.prices.close[self.bar])

    def step(self, target: float, hold: bool = False) -> None:
        """Decide at the close of this bar, fill and mark in the next."""
        prices, costs, t = self.prices, self.costs, self.bar
        closed = int(prices.closes_at[t].astype("int64"))
        closes = int(prices.closes_at[t + 1].astype("int64"))
        fill, filled = float(prices.close[t + 1]), closes
        if prices.open is not None:
            fill, filled = float(prices.open[t + 1]), int(prices.opens_at[t + 1].astype("int64"))
        self.fees = {"borrow": 0.0, "funding": 0.0}
        self._hold(self.units * float(prices.close[t]), filled - closed)
        equity, value = self.cash + self.units * fill, self.units * fill
        trade = 0.0 if hold else trade_to(target, equity, value, fill, costs)
        self.fees |= trade_fees(abs(trade), fill, costs)
        self.cash -= trade + sum(self.fees[kind] for kind in ("spread", "commission", "slippage"))
        self.units = (value + trade) / fill
        self._hold(self.units * fill, closes - filled)
        self.bar += 1

    def _hold(self, value: float, nanoseconds: int) -> None:
        years = nanoseconds / YEAR_NS
        borrow = max(-value, 0.0) * self.costs.borrow_rate_per_year * years
        funding = value * self.costs.funding_rate_per_year * years
        self.fees["borrow"] += borrow
        self.fees["funding"] += funding
        self.cash -= borrow + funding
