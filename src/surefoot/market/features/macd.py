"""Moving average convergence and divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.market.features.base import Feature
from surefoot.market.features.rolling import decay_bars, decaying_mean, ema_alpha
from surefoot.market.prices import Column, Prices
from surefoot.market.spec import require


@dataclass(frozen=True)
class Macd(Feature):
    """The histogram, relative to the price: (line − EMA(line)) / close with line = EMA_fast − EMA_slow."""

    name: ClassVar[str] = "macd"
    fast: int = 12
    slow: int = 26
    signal: int = 9

    def __post_init__(self) -> None:
        for what in ("fast", "slow", "signal"):
            self._require_period(getattr(self, what), what=what)
        require(self.fast < self.slow, f"the feature {self.title}: fast must be less than slow")

    @property
    def lookback(self) -> int:
        return decay_bars(ema_alpha(self.slow)) + decay_bars(ema_alpha(self.signal)) - 2

    def compute(self, prices: Prices) -> list[Column]:
        fast, slow = (decaying_mean(prices.close, ema_alpha(n)) for n in (self.fast, self.slow))
        line = fast - slow
        return [(line - decaying_mean(line, ema_alpha(self.signal))) / prices.close]
