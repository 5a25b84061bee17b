"""A further column of the data, as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.market.features.base import Feature
from surefoot.market.prices import Column, Prices
from surefoot.market.spec import nearest, require


@dataclass(frozen=True)
class ExtraColumn(Feature):
    """``prices.extra[key]``, which is known at the close of its bar."""

    name: ClassVar[str] = "column"
    key: str = ""

    @property
    def lookback(self) -> int:
        return 0

    def require(self, prices: Prices) -> None:
        require(
            self.key in prices.extra,
            f"the feature {self.title}: the data have no extra column {self.key!r}{nearest(self.key, prices.extra)}; "
            f"there are: {', '.join(prices.extra) or 'none'}",
        )

    def compute(self, prices: Prices) -> list[Column]:
        return [np.asarray(prices.extra[self.key], np.float64)]
