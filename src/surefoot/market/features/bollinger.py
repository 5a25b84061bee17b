"""Position between the Bollinger bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.market.features.base import Feature
from surefoot.market.features.rolling import zscore
from surefoot.market.prices import Column, Prices
from surefoot.market.spec import require


@dataclass(frozen=True)
class Bollinger(Feature):
    """(close − mean) / (width·std) of the last ``period`` closes: −1 and 1 are the bands; 0 without any move."""

    name: ClassVar[str] = "bollinger"
    period: int = 20
    width: float = 2.0

    def __post_init__(self) -> None:
        self._require_period(self.period, least=2)
        require(self.width > 0.0, f"the feature {self.title}: width must be positive")

    @property
    def lookback(self) -> int:
        return self.period - 1

    def compute(self, prices: Prices) -> list[Column]:
        return [zscore(prices.close, self.period) / self.width]
