"""Time of day and day of week, on the clock of the exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.market.features.base import Feature
from surefoot.market.local_time import second_of_day, to_local, weekday
from surefoot.market.prices import Column, Prices


def _circle(turns: Column) -> list[Column]:
    return [np.sin(2.0 * np.pi * turns), np.cos(2.0 * np.pi * turns)]


@dataclass(frozen=True)
class TimeOfDay(Feature):
    """Sine and cosine of the time of day at which the bar closed."""

    name: ClassVar[str] = "time_of_day"
    scaled: ClassVar[bool] = False
    parts: ClassVar[tuple[str, ...]] = ("sin", "cos")

    @property
    def lookback(self) -> int:
        return 0

    def compute(self, prices: Prices) -> list[Column]:
        return _circle(second_of_day(to_local(prices.closes_at, prices.timezone)) / 86_400.0)


@dataclass(frozen=True)
class DayOfWeek(Feature):
    """Sine and cosine of the day of the week on which the bar closed."""

    name: ClassVar[str] = "day_of_week"
    scaled: ClassVar[bool] = False
    parts: ClassVar[tuple[str, ...]] = ("sin", "cos")

    @property
    def lookback(self) -> int:
        return 0

    def compute(self, prices: Prices) -> list[Column]:
        return _circle(weekday(to_local(prices.closes_at, prices.timezone)) / 7.0)
