"""When bars are expected: exchanges by `exchange_calendars`, and two calendars of our own.

``fx`` is open from Sunday 17:00 to Friday 17:00 New York time, ``crypto`` always; ``none`` expects nothing.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from surefoot.market.columns import nearest
from surefoot.market.extra import needed
from surefoot.market.prices import Times, shown
from surefoot.market.rules import Findings, Rows

OWN = ("none", "fx", "crypto")
Whole = NDArray[np.int64]
_HOUR = 3_600_000_000_000
_DAY = np.timedelta64(1, "D")
WRONG_SHARE = 0.2
"""Of bars outside the sessions; more of them, and calendar or time zone are not those of the data."""


@dataclass(frozen=True)
class Calendar:
    """Sessions within some years."""

    name: str
    timezone: str
    days: Times
    """[D] datetime64[D]: the dates that have a session."""
    opens: Times
    """[S] datetime64[ns], UTC."""
    closes: Times


def timezone_of(name: str) -> str:
    """The zone in which a calendar thinks."""
    if name in OWN:
        return "America/New_York" if name == "fx" else "UTC"
    return _limits(name)[0]


def is_known(name: str, findings: Findings) -> bool:
    """Whether there is a calendar of this name."""
    if name in OWN:
        return True
    package = needed("exchange_calendars", f"the calendar {name!r}")
    known = [*package.get_calendar_names(include_aliases=True), *OWN]
    if name in known:
        return True
    findings.add("unknown-calendar", f"no calendar is called {name!r}{nearest(name, known)}")
    return False


def calendar_between(name: str, first: np.datetime64, last: np.datetime64) -> Calendar:
    """The sessions that touch the time from `first` to `last`."""
    start, end = first.astype("M8[D]") - 8 * _DAY, last.astype("M8[D]") + 8 * _DAY
    days = np.arange(start, end)
    if name == "crypto":
        return Calendar(name, "UTC", days, start.astype("M8[ns]")[None], end.astype("M8[ns]")[None])
    if name == "fx":
        weekday = (days.astype(np.int64) + 3) % 7  # Monday is 0
        sundays = days[weekday == 6]
        opens = new_york_evening(sundays)
        closes = new_york_evening(sundays + 5 * _DAY)
        return Calendar(name, "America/New_York", days[weekday < 5], opens, closes)
    zone, low, high = _limits(name)
    exchange = _exchange(name, start=max(str(start), low), end=min(str(end), high))
    schedule = exchange.schedule
    return Calendar(
        name,
        zone,
        schedule.index.to_numpy().astype("M8[D]"),
        schedule["open"].dt.tz_convert(None).to_numpy().astype("M8[ns]"),
        schedule["close"].dt.tz_convert(None).to_numpy().astype("M8[ns]"),
    )


def new_york_evening(days: Times) -> Times:
    """17:00 in New York on these dates, where a day of foreign exchange ends, in UTC."""
    pandas = needed("pandas", "the calendar 'fx'")
    local = pandas.DatetimeIndex(days.astype("M8[ns]") + np.timedelta64(17, "h"))
    utc: Times = local.tz_localize(ZoneInfo("America/New_York")).tz_convert(None).to_numpy().astype("M8[ns]")
    return utc


def check_days(calendar: Calendar, days: Times, rows: Rows, name: str, findings: Findings) -> None:
    """Daily bars: one for each day that has a session."""
    outside = np.flatnonzero(~np.isin(days, calendar.days))
    _add_outside(outside, len(days), rows, name, calendar, [str(days[i]) for i in outside[:1000]], findings)
    expected = calendar.days[(calendar.days >= days[0]) & (calendar.days <= days[-1])]
    absent = expected[~np.isin(expected, days)]
    after = np.searchsorted(days, absent)
    gaps, counts = np.unique(after, return_counts=True)
    firsts = absent[np.searchsorted(after, gaps)]
    findings.add_rows(
        "gap", rows[gaps], name, lambda i: f"{_bars(int(counts[i]))} missing before this row, from {firsts[i]}"
    )


def check_bars(
    calendar: Calendar,
    opens_at: Times,
    closes_at: Times,
    interval: np.timedelta64,
    rows: Rows,
    name: str,
    findings: Findings,
) -> None:
    """Bars within the day: on a grid of `interval`, wherever a whole one fits into a session."""
    width = int(interval.astype("m8[ns]").astype(np.int64))
    opens, closes = calendar.opens.astype(np.int64), calendar.closes.astype(np.int64)
    begin, end = opens_at.astype(np.int64), closes_at.astype(np.int64)
    session = np.searchsorted(opens, np.maximum(end - 1, begin), side="right") - 1
    # A moment counts as inside at both ends of a session, a bar as soon as it overlaps.
    inside = (session >= 0) & (np.where(end > begin, begin < closes[session], begin <= closes[session]))
    outside = np.flatnonzero(~inside)
    words = [shown(opens_at[i]) for i in outside[:1000]]
    _add_outside(outside, len(begin), rows, name, calendar, words, findings)
    moment = bool(np.all(end == begin))
    phase, share = _phase(begin, width)
    if width > _HOUR and calendar.timezone != "UTC":  # long bars may follow the local clock through its changes
        local = [_wall_clock(x, calendar.timezone) for x in (begin, opens, closes)]
        if _phase(local[0], width)[1] > share:
            begin, opens, closes = local
            phase, _ = _phase(begin, width)
    first = -((phase - opens) // width)  # the first point of the grid at or after each open
    last = (closes - phase) // width - (0 if moment else 1)
    before = np.concatenate([[0], np.cumsum(np.maximum(last - first + 1, 0))])

    def expected_up_to(t: Whole) -> Whole:
        """How many bars of the grid begin at or before each time."""
        s = np.searchsorted(opens, t, side="right") - 1
        within = np.clip((t - phase) // width - first[s] + 1, 0, np.maximum(last[s] - first[s] + 1, 0))
        return np.where(s < 0, 0, before[s] + within)

    wide = np.flatnonzero(np.diff(begin) > width)
    absent = expected_up_to(begin[wide + 1] - 1) - expected_up_to(begin[wide])
    wide, absent = wide[absent > 0], absent[absent > 0]
    findings.add_rows(
        "gap",
        rows[wide + 1],
        name,
        lambda i: (
            f"{_bars(int(absent[i]))} missing between {shown(opens_at[wide[i]])} and {shown(opens_at[wide[i] + 1])}"
        ),
    )


def _phase(begin: Whole, width: int) -> tuple[int, int]:
    """Where on the clock most bars begin, and how many do."""
    phases, counts = np.unique(begin % width, return_counts=True)
    return int(phases[np.argmax(counts)]), int(counts.max())


def _wall_clock(utc: Whole, zone: str) -> Whole:
    pandas = needed("pandas", "calendars")
    local = pandas.DatetimeIndex(utc.astype("M8[ns]"), tz="UTC").tz_convert(ZoneInfo(zone)).tz_localize(None)
    wall: Whole = local.to_numpy().astype("M8[ns]").astype(np.int64)
    return wall


def _add_outside(
    outside: Rows, total: int, rows: Rows, name: str, calendar: Calendar, words: list[str], findings: Findings
) -> None:
    if len(outside) > WRONG_SHARE * total:
        text = f"{len(outside):,} of {total:,} bars are when {calendar.name} is closed, the first at {words[0]} UTC"
        findings.add("wrong-calendar", text, int(rows[outside[0]]), name)
    else:
        findings.add_rows(
            "outside-session", rows[outside], name, lambda i: f"{words[i]} is when {calendar.name} is closed"
        )


def _bars(count: int) -> str:
    return "1 bar is" if count == 1 else f"{count:,} bars are"


@cache
def _limits(name: str) -> tuple[str, str, str]:
    """Time zone, first and last date that the package knows of an exchange."""
    whole = _exchange(name)
    low, high = whole.bound_min(), whole.bound_max()
    return str(whole.tz), "1800-01-01" if low is None else str(low.date()), str(high.date()) if high else "2200-01-01"


def _exchange(name: str, **span: str) -> Any:
    package = needed("exchange_calendars", f"the calendar {name!r}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # what pandas has to say to that package
        return package.get_calendar(name, **span)
