"""When each bar opened and closed, from its stamp.

| stamps | a bar is open from | to | ``stamp=`` |
|---|---|---|---|
| dates, one a day | the session's open, or the day's begin | the session's close, or the day's end | not needed |
| dates, weeks or months apart | | | needed if there are opens |
| times, with open, high, low | stamp, or stamp − spacing | stamp + spacing, or stamp | needed |
| times, closes only | the moment itself | the moment itself | not needed; ``open`` adds the spacing |

A daily bar dated D counts as known when D's session is over, never earlier, whatever the file meant by D: a date that
stands for the close would else hand out the close in the morning.
"""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np

from surefoot.market.calendars import Calendar, new_york_evening
from surefoot.market.extra import needed
from surefoot.market.prices import Times

_DAY = np.timedelta64(1, "D")
_ZERO = np.timedelta64(0, "ns")


@dataclass(frozen=True)
class Spacing:
    """How far stamps are apart."""

    interval: np.timedelta64
    """The commonest distance."""
    share: float
    """Of distances that are this one."""
    days: Times | None
    """The dates, if stamps name days rather than times."""

    @property
    def is_daily(self) -> bool:
        """One bar a day, named by its date."""
        return self.days is not None and self.interval == _DAY

    def wants_stamp(self, has_ohlc: bool) -> bool:
        """Whether it matters, and cannot be known, if stamps are of opens or of closes."""
        return has_ohlc and not self.is_daily


def spacing_of(times: Times, zone: ZoneInfo) -> Spacing:
    """Of increasing stamps in UTC (dates as midnights)."""
    steps, counts = np.unique(np.diff(times), return_counts=True)
    interval = steps[np.argmax(counts)]
    share = float(counts.max() / counts.sum())
    if steps[0] < np.timedelta64(22, "h"):  # a day of local midnights is 23 h when the clock moves on
        return Spacing(interval, share, None)
    for candidate in (times, _local(times, zone)):
        days = candidate.astype("M8[D]")
        if np.all(days == candidate):
            steps, counts = np.unique(np.diff(days), return_counts=True)
            return Spacing(steps[np.argmax(counts)], float(counts.max() / counts.sum()), days)
    return Spacing(interval, share, None)


def bar_times(
    times: Times, spacing: Spacing, zone: ZoneInfo, calendar: Calendar | None, stamp: str | None, has_ohlc: bool
) -> tuple[Times, Times]:
    """(opens_at, closes_at), both increasing; no bar opens before the one before it has closed."""
    if spacing.days is not None:
        opens, closes = _of_days(spacing, zone, calendar, stamp)
        if not has_ohlc:
            return closes, closes
    elif not has_ohlc and stamp != "open":
        return times, times
    elif stamp == "close":
        opens, closes = times - spacing.interval, times
    else:
        opens, closes = times, times + spacing.interval
        closes[:-1] = np.minimum(closes[:-1], times[1:])
    if not has_ohlc:
        return closes, closes
    opens = opens.copy()
    opens[1:] = np.maximum(opens[1:], closes[:-1])
    return opens, closes


def _of_days(spacing: Spacing, zone: ZoneInfo, calendar: Calendar | None, stamp: str | None) -> tuple[Times, Times]:
    days = spacing.days
    assert days is not None
    if not spacing.is_daily:
        begins = _midnight(days, zone)
        if stamp == "open":
            return begins, np.append(begins[1:], begins[-1] + spacing.interval.astype("m8[ns]"))
        ends = _midnight(days + _DAY, zone)
        return ends - spacing.interval.astype("m8[ns]"), ends
    if calendar is not None and calendar.name == "fx":
        return new_york_evening(days - _DAY), new_york_evening(days)
    opens, closes = _midnight(days, zone), _midnight(days + _DAY, zone)
    if calendar is not None and calendar.name != "crypto":
        place = np.clip(np.searchsorted(calendar.days, days), 0, len(calendar.days) - 1)
        known = calendar.days[place] == days
        opens[known], closes[known] = calendar.opens[place[known]], calendar.closes[place[known]]
    return opens, closes


def _local(times: Times, zone: ZoneInfo) -> Times:
    pandas = needed("pandas", "reading prices")
    local: Times = pandas.DatetimeIndex(times, tz="UTC").tz_convert(zone).tz_localize(None).to_numpy().astype("M8[ns]")
    return local


def _midnight(days: Times, zone: ZoneInfo) -> Times:
    """The begin of dates in a zone, as UTC; where the clock skips midnight, the first moment after it."""
    if zone.key == "UTC":
        return days.astype("M8[ns]")
    pandas = needed("pandas", "reading prices")
    local = pandas.DatetimeIndex(days.astype("M8[ns]"))
    aware = local.tz_localize(zone, ambiguous=np.ones(len(local), bool), nonexistent="shift_forward")
    utc: Times = aware.tz_convert(None).to_numpy().astype("M8[ns]")
    return utc.copy()
