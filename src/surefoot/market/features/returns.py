"""Log returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.market.features.base import Feature
from surefoot.market.features.rolling import lagged
from surefoot.market.prices import Column, Prices


@dataclass(frozen=True)
class Return(Feature):
    """log(closeₜ / closeₜ₋ₖ)."""

    name: ClassVar[str] = "return"
    bars: int = 1

    def __post_init__(self) -> None:
        self._require_period(self.bars, what="bars")

    @property
    def lookback(self) -> int:
        return self.bars

    def compute(self, prices: Prices) -> list[Column]:
        return [np.log(prices.close / lagged(prices.close, self.bars))]
