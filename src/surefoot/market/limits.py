"""When an account may not trade, and how much it may hold: by simulated time only (E07, E09)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.errors import ConfigError
from surefoot.market.local_time import second_of_day, to_local, weekday
from surefoot.market.prices import Column, Prices, Times
from surefoot.market.simulator import Flags
from surefoot.market.spec import require

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
FORM = re.compile(r"(?:(?P<days>[a-z]{3}(?:-[a-z]{3})?)\s*)?(?:(?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d))?")
HOW = "write it as '22:00-23:15', 'fri 20:00-24:00', 'sat-sun', '2015-01-14/2015-01-17' or 'always'"


@dataclass(frozen=True)
class Limits:
    """For decisions at the close of each bar."""

    hold: Flags | None
    """[T]; True where the account keeps what it has; None if that is nowhere."""
    most: Column | None
    """[T]; the largest position allowed, as a fraction of equity; None if that is 1 everywhere."""

    @classmethod
    def of(cls, prices: Prices, no_trade: Sequence[str], position_limits: Mapping[str, float]) -> Limits:
        """Windows on the clock of the exchange; the tightest of overlapping limits counts."""
        require(not isinstance(no_trade, str), f"no_trade must be a list of windows, not {no_trade!r}")
        local = to_local(prices.closes_at, prices.timezone)
        hold = np.zeros(len(prices), np.bool_)
        for window in no_trade:
            hold |= inside(window, local)
        most = np.ones(len(prices))
        for window, limit in position_limits.items():
            require(
                type(limit) in (int, float) and 0.0 <= limit <= 1.0,
                f"position_limits[{window!r}] = {limit!r} must be a fraction of equity between 0 and 1",
            )
            most = np.where(inside(window, local), np.minimum(most, limit), most)
        return cls(hold if hold.any() else None, most if (most < 1.0).any() else None)


def inside(window: str, local: Times) -> Flags:
    """[T]; which moments are in a window, its start included, its end not. One that ends before it starts goes over
    midnight, and its days are those on which it starts."""
    text = str(window).strip().lower()
    if text == "always":
        return np.ones(len(local), np.bool_)
    if "/" in text:
        return _between(text, local)
    found = FORM.fullmatch(text)
    if found is None or not text:
        raise ConfigError(f"the window {window!r} cannot be read: {HOW}")
    days = np.isin(np.arange(7), _days(found["days"], window))
    today = weekday(local)
    if found["start"] is None:
        return days[today]
    start, end = (_seconds(found[key], window) for key in ("start", "end"))
    require(start != end, f"the window {window!r} is empty: {HOW}")
    now = second_of_day(local)
    if start < end:
        return days[today] & (now >= start) & (now < end)
    return (days[today] & (now >= start)) | (days[(today - 1) % 7] & (now < end))


def _between(text: str, local: Times) -> Flags:
    try:
        start, end = (np.datetime64(part.strip().upper()) for part in text.split("/"))
    except ValueError:
        raise ConfigError(f"the window {text!r} cannot be read: {HOW}") from None
    require(bool(start < end), f"the window {text!r} ends before it starts")
    return np.asarray((local >= start) & (local < end))


def _days(text: str | None, window: str) -> list[int]:
    if text is None:
        return list(range(7))
    parts = text.split("-")
    require(all(part in DAYS for part in parts), f"the window {window!r} has a day that is none of {', '.join(DAYS)}")
    first, last = DAYS.index(parts[0]), DAYS.index(parts[-1])
    return [(first + i) % 7 for i in range((last - first) % 7 + 1)]


def _seconds(text: str, window: str) -> int:
    hours, minutes = int(text[:2]), int(text[3:])
    require(hours * 60 + minutes <= 1440 and minutes < 60, f"the window {window!r} has a time after 24:00: {HOW}")
    return hours * 3600 + minutes * 60
