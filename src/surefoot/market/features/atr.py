"""Average true range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.market.features.base import Feature
from surefoot.market.features.rolling import decay_bars, decaying_mean, lagged
from surefoot.market.prices import Column, Prices


@dataclass(frozen=True)
class Atr(Feature):
    """Wilder's average of max(high − low, |high − previous close|, |low − previous close|), divided by the close."""

    name: ClassVar[str] = "atr"
    needs_ohlc: ClassVar[bool] = True
    period: int = 14

    def __post_init__(self) -> None:
        self._require_period(self.period)

    @property
    def lookback(self) -> int:
        return decay_bars(1.0 / self.period)

    def compute(self, prices: Prices) -> list[Column]:
        assert prices.high is not None
        assert prices.low is not None
        before = lagged(prices.close, 1)
        gaps = np.maximum(np.abs(prices.high - before), np.abs(prices.low - before))
        return [decaying_mean(np.maximum(prices.high - prices.low, gaps), 1.0 / self.period) / prices.close]
