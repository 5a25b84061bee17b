"""Rolling z-scores of the close and of the volume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.market.features import rolling
from surefoot.market.features.base import Feature
from surefoot.market.prices import Column, Prices


@dataclass(frozen=True)
class ZScore(Feature):
    """(close − mean) / std of the last ``period`` closes; 0 where they are all alike."""

    name: ClassVar[str] = "zscore"
    period: int = 60

    def __post_init__(self) -> None:
        self._require_period(self.period, least=2)

    @property
    def lookback(self) -> int:
        return self.period - 1

    def compute(self, prices: Prices) -> list[Column]:
        return [rolling.zscore(prices.close, self.period)]


@dataclass(frozen=True)
class VolumeZScore(Feature):
    """The same of log(1 + volume)."""

    name: ClassVar[str] = "volume_zscore"
    needs_volume: ClassVar[bool] = True
    period: int = 60

    def __post_init__(self) -> None:
        self._require_period(self.period, least=2)

    @property
    def lookback(self) -> int:
        return self.period - 1

    def compute(self, prices: Prices) -> list[Column]:
        assert prices.volume is not None
        return [rolling.zscore(np.log1p(prices.volume), self.period)]
