"""Realised volatility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.market.features.base import Feature
from surefoot.market.features.rolling import lagged, mean
from surefoot.market.prices import Column, Prices


@dataclass(frozen=True)
class Volatility(Feature):
    """Root of the mean squared log return of the last ``period`` bars."""

    name: ClassVar[str] = "volatility"
    period: int = 20

    def __post_init__(self) -> None:
        self._require_period(self.period)

    @property
    def lookback(self) -> int:
        return self.period

    def compute(self, prices: Prices) -> list[Column]:
        move = np.log(prices.close / lagged(prices.close, 1))
        return [np.sqrt(mean(move * move, self.period))]
