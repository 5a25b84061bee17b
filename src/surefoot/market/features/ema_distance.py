"""How far the close is from its exponential average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.market.features.base import Feature
from surefoot.market.features.rolling import decay_bars, decaying_mean, ema_alpha
from surefoot.market.prices import Column, Prices


@dataclass(frozen=True)
class EmaDistance(Feature):
    """log(close / EMA(close))."""

    name: ClassVar[str] = "ema_distance"
    period: int = 20

    def __post_init__(self) -> None:
        self._require_period(self.period)

    @property
    def lookback(self) -> int:
        return decay_bars(ema_alpha(self.period)) - 1

    def compute(self, prices: Prices) -> list[Column]:
        return [np.log(prices.close / decaying_mean(prices.close, ema_alpha(self.period)))]
