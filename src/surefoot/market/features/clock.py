"""Time of day and day of week, on the clock of the exchange."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.market.features.base import Feature
from surefoot.market.local_time import second_of_day, to_local, weekday
from surefoot.market.prices import Column, Prices, Times


class _Clock(Feature):
    """Sine and cosine of where a hand of the clock stands when the bar closes."""

    scaled: ClassVar[bool] = False
    parts: ClassVar[tuple[str, ...]] = ("sin", "cos")

    @property
    def lookback(self) -> int:
        return 0

    def compute(self, prices: Prices) -> list[Column]:
        angle = 2.0 * np.pi * self.turns(to_local(prices.closes_at, prices.timezone))
        return [np.sin(angle), np.cos(angle)]

    @abstractmethod
    def turns(self, local: Times) -> Column:
        """[T] of a full turn, at local times."""


@dataclass(frozen=True)
class TimeOfDay(_Clock):
    """Sine and cosine of the time of day at which the bar closed."""

    name: ClassVar[str] = "time_of_day"

    def turns(self, local: Times) -> Column:
        return second_of_day(local) / 86_400.0


@dataclass(frozen=True)
class DayOfWeek(_Clock):
    """Sine and cosine of the day of the week on which the bar closed."""

    name: ClassVar[str] = "day_of_week"

    def turns(self, local: Times) -> Column:
        return weekday(local) / 7.0
