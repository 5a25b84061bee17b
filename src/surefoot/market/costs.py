"""What trading and holding costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from surefoot.market.spec import nearest, require

KINDS = ("spread", "commission", "slippage", "borrow", "funding")
"""Lines of the account, in the order in which the simulator keeps them."""
SECONDS_PER_YEAR = 365.0 * 86_400.0
"""Rates per year accrue by elapsed time on years of 365 days, as brokers count."""


@dataclass(frozen=True)
class Costs:
    """Each is 0 unless it is named. ``bps`` are hundredths of a percent of the value traded, at the data's price."""

    half_spread_bps: float = 0.0
    """Half the distance of bid and ask; the prices of the data are taken as the middle."""
    commission_bps: float = 0.0
    commission_per_unit: float = 0.0
    """Money for each unit (share, contract) bought or sold."""
    commission_minimum: float = 0.0
    """Money: what a trade pays at least as commission."""
    slippage_bps: float = 0.0
    """Always against the account, whichever way it trades."""
    borrow_rate_per_year: float = 0.0
    """On the value of a short position."""
    funding_rate_per_year: float = 0.0
    """On the value of the position: above 0 a long position pays and a short one receives; below 0 the reverse."""

    def __post_init__(self) -> None:
        for x in fields(self):
            value = getattr(self, x.name)
            number = type(value) in (int, float) and math.isfinite(value)
            require(number, f"costs: {x.name} must be a finite number, not {value!r}")
            signed = x.name == "funding_rate_per_year"
            require(signed or value >= 0.0, f"costs: {x.name} is {value}, it cannot be negative")

    @classmethod
    def of(cls, given: Costs | Mapping[str, Any]) -> Costs:
        """Costs, or a dict of them."""
        if isinstance(given, Costs):
            return given
        require(isinstance(given, Mapping), f"costs must be Costs(…) or a dict, not {given!r}")
        known = [x.name for x in fields(cls)]
        for key in given:
            require(key in known, f"costs: {key!r} is not known{nearest(key, known)}; there are: {', '.join(known)}")
        return cls(**given)

    def times(self, factor: float) -> Costs:
        """Every cost so many times as high."""
        return replace(self, **{x.name: factor * getattr(self, x.name) for x in fields(self)})

    @property
    def trade_rate(self) -> float:
        """Spread, commission and slippage as a fraction of the value traded, without what is by unit or at least."""
        return (self.half_spread_bps + self.commission_bps + self.slippage_bps) * 1e-4

    def require_survivable(self, lowest_price: float, capital: float, ruin: float) -> None:
        """Raise if one turn from fully long to fully short would ruin an account."""
        rate = self.trade_rate + self.commission_per_unit / lowest_price
        lost = max(2.0 * rate, 2.0 * self.commission_minimum / capital + 2.0 * (rate - self.commission_bps * 1e-4))
        require(
            1.0 - lost > ruin,
            f"the costs ruin an account at once: one turn from long to short costs {lost:.1%} of its equity "
            f"(capital {capital:g}, lowest price {lowest_price:g}), and ruin is at {ruin:.1%}; check their units: "
            "1 bps is 0.01 %, commission_per_unit and commission_minimum are money",
        )


DEFAULT_COSTS = Costs(half_spread_bps=1.0, commission_bps=0.5)
"""Charged if nothing is said, so that nobody trades for free by oversight; `Costs()` is free."""
