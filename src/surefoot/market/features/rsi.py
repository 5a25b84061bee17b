"""Relative strength index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.market.features.base import Feature
from surefoot.market.features.rolling import decay_bars, decaying_mean, lagged, ratio
from surefoot.market.prices import Column, Prices


@dataclass(frozen=True)
class Rsi(Feature):
    """2·up / (up + down) − 1 with Wilder's averages of rises and falls: the index from −1 to 1; 0 without any move."""

    name: ClassVar[str] = "rsi"
    period: int = 14

    def __post_init__(self) -> None:
        self._require_period(self.period)

    @property
    def lookback(self) -> int:
        return decay_bars(1.0 / self.period)

    def compute(self, prices: Prices) -> list[Column]:
        move = prices.close - lagged(prices.close, 1)
        up = decaying_mean(np.maximum(move, 0.0), 1.0 / self.period)
        down = decaying_mean(np.maximum(-move, 0.0), 1.0 / self.period)
        return [2.0 * ratio(up, up + down, 0.5) - 1.0]
