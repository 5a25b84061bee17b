"""The accounts: one vectorized step of N of them, money in float64.

A decision is made at the close of bar t, filled at the open of bar t + 1 (at its close if the data have closes only),
and everything is marked at the close of bar t + 1 (E03). Over such a step, and to rounding (E02),

    Δequity = units_before·(fill − close_t) + units_after·(close_{t+1} − fill) − Σ fees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.market.costs import KINDS, SECONDS_PER_YEAR, Costs
from surefoot.market.prices import Column, Prices

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
SPREAD, COMMISSION, SLIPPAGE, BORROW, FUNDING = range(len(KINDS))


class Marked(NamedTuple):
    """Accounts at the close of a bar, all [N]."""

    cash: Column
    """What is not in the position. Fees of a trade never make it negative; funding that a fully invested account pays
    after its fill is owed until the next fill, where the target, a fraction of equity, sells what is needed."""
    units: Column
    equity: Column
    value: Column
    """Of the position, below 0 for a short one."""
    close: Column
    traded: Column
    """Value bought or sold at the fill, without sign."""
    fees: Column
    """[5, N], a line for each of `KINDS`; only funding may be below 0."""


class Simulator:
    """Prices and costs, ready to be stepped."""

    def __init__(self, prices: Prices, costs: Costs, rebalance_band: float = 0.0) -> None:
        self._costs, self._band = costs, rebalance_band
        self._rates = np.array([[costs.half_spread_bps], [costs.commission_bps], [costs.slippage_bps]]) * 1e-4
        self._rate = costs.trade_rate
        self._carries = costs.borrow_rate_per_year != 0.0 or costs.funding_rate_per_year != 0.0
        self.fills_at_close = prices.open is None
        opened = prices.close if prices.open is None else prices.open
        before, held = _years(prices)
        self._table = np.ascontiguousarray(np.stack([prices.close, opened, before, held], axis=1))
        """[T, 4], so that one lookup per step finds all of a bar."""

    def close(self, bar: Indices) -> Column:
        """[N] closes of the given bars."""
        found: Column = self._table[bar, 0]
        return found

    def step(
        self, before: Marked, bar: Indices, target: Column, multiplier: Column | None = None, hold: Flags | None = None
    ) -> Marked:
        """Accounts that stood at ``before`` go to the close of ``bar``, the next one, and trade on the way.

        ``target`` [N] is the position wanted, as a fraction of equity; it is reached exactly, after the fees of getting
        there. ``multiplier`` [N] scales all costs; ``hold`` [N] marks accounts that cannot trade now.
        """
        row = self._table[bar]
        close = row[:, 0]
        fill = close if self.fills_at_close else row[:, 1]
        cash, value = before.cash, before.units * fill
        fees = np.zeros((len(KINDS), len(bar)))
        if self._carries:
            cash = cash - self._carry(before.value, row[:, 2], multiplier, fees)
        # An account with nothing left closes its position.
        equity = np.maximum(cash + value, 0.0)
        wanted = target * equity - value
        trade = self._sized(wanted, target, equity, value, fill, multiplier)
        if self._band > 0.0:
            trade = np.where(np.abs(wanted) > self._band * equity, trade, 0.0)
        if hold is not None:
            trade = np.where(hold, 0.0, trade)
        traded = np.abs(trade)
        cash = cash - (trade + self._charge(traded, fill, multiplier, fees))
        new_value = value + trade
        units = new_value / fill
        if self._band > 0.0 or hold is not None:
            units = np.where(trade == 0.0, before.units, units)  # what is kept is kept to the last bit
        if not self.fills_at_close:
            if self._carries:
                cash = cash - self._carry(new_value, row[:, 3], multiplier, fees)
            new_value = units * close
        return Marked(cash, units, cash + new_value, new_value, close, traded, fees)

    def _sized(
        self, wanted: Column, target: Column, equity: Column, value: Column, fill: Column, multiplier: Column | None
    ) -> Column:
        """Signed value to trade so that the position is ``target`` of what is left after the fees.

        With d = a·(E − c·|d|) − V one finds d = (a·E − V) / (1 ± a·c), + for a purchase. Where the minimum commission m
        binds, d = (a·(E − m) − V) / (1 ± a·c′) with c′ the costs without commission; and what is wanted must be more
        than m, unless it is to close the position: nobody pays a commission to trade less than that.
        """
        costs = self._costs
        rate: float | Column = self._rate
        by_unit = costs.commission_per_unit
        if by_unit:
            rate = rate + by_unit / fill
        if multiplier is not None:
            rate = rate * multiplier
        trade: Column = wanted / (1.0 + np.copysign(rate, wanted) * target)
        if not costs.commission_minimum:
            return trade
        times: float | Column = 1.0 if multiplier is None else multiplier
        least = costs.commission_minimum * times
        other = (costs.half_spread_bps + costs.slippage_bps) * 1e-4 * times
        small = (target * (equity - least) - value) / (1.0 + np.copysign(other, wanted) * target)
        enough = (rate - other) * np.abs(trade) >= least
        worth_it = (np.abs(wanted) > least) | (target == 0.0)
        return np.where(enough, trade, np.where(worth_it, small, 0.0))

    def _charge(self, traded: Column, fill: Column, multiplier: Column | None, fees: Column) -> Column:
        """Write the lines of a trade; their sum."""
        np.multiply(self._rates, traded, out=fees[:BORROW])
        if self._costs.commission_per_unit:
            fees[COMMISSION] += self._costs.commission_per_unit * (traded / fill)
        if self._costs.commission_minimum:
            np.maximum(fees[COMMISSION], self._costs.commission_minimum * (traded > 0.0), out=fees[COMMISSION])
        if multiplier is not None:
            fees[:BORROW] *= multiplier
        total: Column = fees[SPREAD] + fees[COMMISSION]
        total += fees[SLIPPAGE]
        return total

    def _carry(self, value: Column, years: Column, multiplier: Column | None, fees: Column) -> Column:
        """Add what holding ``value`` for so long costs to its lines; the sum."""
        if multiplier is not None:
            years = years * multiplier
        borrow = np.maximum(-value, 0.0) * (self._costs.borrow_rate_per_year * years)
        funding = value * (self._costs.funding_rate_per_year * years)
        fees[BORROW] += borrow
        fees[FUNDING] += funding
        total: Column = borrow + funding
        return total


def _years(prices: Prices) -> tuple[Column, Column]:
    """For each bar the years from the close before it to its fill, and from there to its close. Data only (E09)."""
    fills_at = prices.closes_at if prices.open is None else np.minimum(prices.opens_at, prices.closes_at)
    before = np.zeros(len(prices))
    before[1:] = (fills_at[1:] - prices.closes_at[:-1]).astype("timedelta64[ns]").astype(np.int64)
    held = (prices.closes_at - fills_at).astype("timedelta64[ns]").astype(np.float64)
    # A bar may open at the moment, or by a rough stamp even before, the one before it closed.
    return np.maximum(before, 0.0) * 1e-9 / SECONDS_PER_YEAR, held * 1e-9 / SECONDS_PER_YEAR
