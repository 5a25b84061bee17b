"""Stamps become UTC: dates and times of every common form, numbers since 1970, local times with their clock changes.

Nothing is guessed that the file does not show: day and month, the unit of numbers, the half of the day and the hour
that comes twice in autumn are errors if they cannot be known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import ConfigError
from surefoot.market.extra import needed
from surefoot.market.prices import Times, shown
from surefoot.market.rules import Rows
from surefoot.market.stamp_text import parse_text

DATES = ("ymd", "dmy", "mdy", "s", "ms", "us", "ns")
_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_EARLIEST, _LATEST = np.datetime64("1800-01-01", "ns"), np.datetime64("2100-01-01", "ns")
_EPOCH_FROM, _EPOCH_TO = 315_532_800, 4_102_444_800
"""1980 to 2100 in seconds: within it no two units can be confused."""
_NAT = np.datetime64("NaT", "ns")
HOUR = np.timedelta64(3600, "s")


@dataclass
class Stamps:
    """One column of stamps: NaT where there is none, and the positions at fault by rule, with a text for each."""

    name: str
    times: Times
    """[T] datetime64[ns], in UTC if `aware`, else as the wall clock of the file."""
    aware: bool = False
    faults: dict[str, Rows] = field(default_factory=dict)
    raw: Any = None
    general: list[tuple[str, str]] = field(default_factory=list)
    """Rules that the column breaks as a whole, with the text."""
    dates_only: bool = False
    """Whether there is no time of day, so that no zone can move the stamps."""
    marked: bool = False
    """Whether hours come with AM and PM."""

    def quote(self, i: int) -> str:
        """The stamp as it stands in the source."""
        return repr(self.raw[i].as_py()) if self.raw is not None else str(self.times[i])


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its name."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ConfigError(f"timezone {name!r} is not known; use a name such as 'UTC' or 'America/New_York'") from None


def read_stamps(name: str, column: Any, clock: Any = None, dates: str | None = None) -> Stamps:
    """A pyarrow column (of dates, with one of times of day beside it) as stamps."""
    pa = needed("pyarrow", "reading prices")
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        stamps = _of_typed(pa, name, column)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        stamps = _of_numbers(pa, name, column, dates)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        stamps = _of_text(pa, name, column, clock, dates)
    else:
        stamps = Stamps(name, np.full(len(column), _NAT), general=[("bad-stamp", f"a column of {kind} has no stamps")])
    stamps.raw = column
    _check_years(stamps)
    return stamps


def to_utc(stamps: Stamps, zone: ZoneInfo) -> Times:
    """The stamps in UTC; local times that the clock skipped or repeated become faults."""
    if stamps.aware or zone.key == "UTC":
        return stamps.times
    pandas = needed("pandas", "reading prices")
    local = pandas.DatetimeIndex(stamps.times)
    early = local.tz_localize(zone, ambiguous=np.ones(len(local), bool), nonexistent="NaT").tz_convert(None)
    late = local.tz_localize(zone, ambiguous=np.zeros(len(local), bool), nonexistent="NaT").tz_convert(None)
    first, second = early.to_numpy().astype("M8[ns]"), late.to_numpy().astype("M8[ns]")
    skipped = np.isnat(first) & ~np.isnat(stamps.times)
    if skipped.any():
        stamps.faults["dst-gap"] = np.flatnonzero(skipped)
    twice = np.flatnonzero((first != second) & ~np.isnat(first))
    times: Times = first.copy()
    unknown: list[int] = []
    for run in np.split(twice, np.flatnonzero(np.diff(first[twice]) > 24 * HOUR) + 1):
        falls = np.flatnonzero(np.diff(stamps.times[run]) <= np.timedelta64(0, "ns"))
        if len(falls) == 1:  # the clock is seen to go back: what stands below is the second time
            times[run[falls[0] + 1 :]] = second[run[falls[0] + 1 :]]
        else:
            unknown.extend(run.tolist())
    if unknown:
        stamps.faults["dst-repeat"] = np.array(unknown, dtype=np.int64)
    return times


def looks_like_12_hours(times: Times) -> int | None:
    """The position where a series shows that its hours lack AM and PM, None if it does not.

    Hours are 1 to 12 only, and either the clock falls back from twelve to one within a date, or most stamps stand
    twice, or all twelve hours occur (a market that opens at one and closes before thirteen is not known to us).
    """
    valid = np.flatnonzero(~np.isnat(times))
    known = times[valid]
    if len(known) < 3:
        return None
    days = known.astype("M8[D]")
    hours = (known - days).astype("m8[h]").astype(np.int64)
    if hours.min() < 1 or hours.max() > 12:
        return None
    back = (np.diff(known) < np.timedelta64(0, "ns")) & (np.diff(days) == np.timedelta64(0, "D")) & (hours[:-1] == 12)
    if back.any():
        return int(valid[np.flatnonzero(back)[0] + 1])
    twice = len(known) - len(np.unique(known)) >= len(known) // 2 - 1
    if (twice and len(known) >= 4) or len(np.unique(hours)) == 12:
        return int(valid[0])
    return None


def _of_typed(pa: Any, name: str, column: Any) -> Stamps:
    zone = getattr(column.type, "tz", None)
    try:
        column = column.cast(pa.timestamp("ns", zone))
    except pa.ArrowInvalid:  # beyond what nanoseconds hold: 1677 to 2262
        text = f"a stamp is beyond the years 1677 to 2262 ({column.type})"
        return Stamps(name, np.full(len(column), _NAT), general=[("epoch-unit", text)])
    times = np.array(column.to_numpy(zero_copy_only=False), dtype="M8[ns]")
    return Stamps(name, times, zone is not None, _absent(times))


def _of_numbers(pa: Any, name: str, column: Any, dates: str | None) -> Stamps:
    """Numbers since 1970 in the unit that gives years from 1980 to 2100, or eight digits of a date."""
    numbers = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    finite = np.isfinite(numbers)
    times = np.full(len(numbers), _NAT)
    stamps = Stamps(name, times, aware=True)
    if not finite.all():
        stamps.faults["bad-stamp"] = np.flatnonzero(~finite)
    known = numbers[finite]
    if len(known) == 0:
        return stamps
    if dates == "ymd" or (dates is None and np.all((known >= 18_000_101) & (known <= 21_001_231))):
        year, month, day = known // 10_000, known // 100 % 100, known % 100
        stamps.times[finite] = _dates(year, month, day)
        stamps.aware, stamps.dates_only = False, True
        stamps.faults |= _absent(stamps.times)
        return stamps
    if dates in ("dmy", "mdy"):
        stamps.general.append(("date-order", f"dates={dates!r}, but stamps are numbers"))
        return stamps
    unit = dates or _unit(known)
    if unit is None:
        text = f"stamps such as {known[0]:.15g} are neither seconds, ms, µs nor ns since 1970 of the years 1980 to 2100"
        stamps.general.append(("epoch-unit", text))
        return stamps
    scale = _UNITS[unit]
    fits = finite & (np.abs(np.nan_to_num(numbers)) * (scale / 1e9) < 9e9)
    whole = np.where(fits, numbers, 0)
    if pa.types.is_integer(column.type):  # float64 would not hold every nanosecond
        exact = np.asarray(column.fill_null(0).cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False))
        times[fits] = (exact[fits] * scale).astype("M8[ns]")
    else:
        seconds = np.floor(whole / (1e9 / scale))
        rest = np.round((whole - seconds * (1e9 / scale)) * scale)
        times[fits] = (seconds.astype(np.int64) * 1_000_000_000 + rest.astype(np.int64)).astype("M8[ns]")[fits]
    plausible = fits & (np.abs(whole) * (scale / 1e9) >= _EPOCH_FROM) & (np.abs(whole) * (scale / 1e9) < _EPOCH_TO)
    if dates is None and (finite & ~plausible).any():
        stamps.faults["epoch-unit"] = np.flatnonzero(finite & ~plausible)
        times[finite & ~plausible] = _NAT
    return stamps


def _unit(known: NDArray[np.float64]) -> str | None:
    """The unit in which most of the numbers are plausible."""
    for unit, scale in _UNITS.items():
        seconds = known * (scale / 1e9)
        if np.mean((seconds >= _EPOCH_FROM) & (seconds < _EPOCH_TO)) > 0.5:
            return unit
    return None


def _of_text(pa: Any, name: str, column: Any, clock: Any, dates: str | None) -> Stamps:
    text = pa.compute.utf8_trim_whitespace(column)
    if clock is not None:
        text = pa.compute.binary_join_element_wise(text, clock.cast(text.type), " ")
    if dates in (None, "ymd"):
        for zone in (None, "UTC"):
            try:
                text[:100].cast(pa.timestamp("ns", zone))  # a cast of all that fails is slow
                times = np.array(text.cast(pa.timestamp("ns", zone)).to_numpy(zero_copy_only=False), dtype="M8[ns]")
            except pa.ArrowInvalid:
                continue  # not all of them are ISO 8601 of this kind
            longest = pa.compute.max(pa.compute.utf8_length(text)).as_py() or 0
            return Stamps(name, times, zone is not None, _absent(times), dates_only=longest <= 10)
    if pa.compute.all(
        pa.compute.match_substring_regex(text, r"^-?(\d{5,18}|[1-8]\d{18})(\.\d+)?$").fill_null(False)
    ).as_py():
        whole = not pa.compute.any(pa.compute.match_substring(text, ".")).as_py()
        return _of_numbers(pa, name, text.cast(pa.int64() if whole else pa.float64()), dates)
    if dates in _UNITS:
        return Stamps(name, np.full(len(text), _NAT), general=[("epoch-unit", f"dates={dates!r}, but stamps are text")])
    parsed = parse_text(pa, text, dates)
    return Stamps(
        name,
        parsed.times,
        parsed.aware,
        parsed.faults,
        general=parsed.general,
        dates_only=parsed.dates_only,
        marked=parsed.marked,
    )


def _check_years(stamps: Stamps) -> None:
    """Years that give away a wrong unit: all within January 1970, or absurd."""
    known = stamps.times[~np.isnat(stamps.times)]
    if len(known) == 0:
        return
    if len(known) > 1 and known.min() >= np.datetime64("1970-01-01") and known.max() < np.datetime64("1970-02-01"):
        text = f"all stamps are in January 1970 (the first {shown(known[0])}): the unit was lost on the way"
        stamps.general.append(("epoch-unit", text))
    absurd = (stamps.times < _EARLIEST) | (stamps.times >= _LATEST)
    if absurd.any():
        stamps.faults["epoch-unit"] = np.union1d(
            np.flatnonzero(absurd), stamps.faults.get("epoch-unit", np.zeros(0, int))
        )
        stamps.times[absurd] = _NAT


def _dates(year: Any, month: Any, day: Any) -> Times:
    """Dates by their numbers; NaT for those that no calendar has."""
    years, months, days = (np.asarray(x, dtype=np.int64) for x in (year, month, day))
    first = ((years - 1970) * 12 + months - 1).astype("M8[M]")
    found = first.astype("M8[D]") + (days - 1).astype("m8[D]")
    wrong = (months < 1) | (months > 12) | (days < 1) | (found.astype("M8[M]") != first)
    return np.where(wrong, np.datetime64("NaT", "D"), found).astype("M8[ns]")


def _absent(times: Times) -> dict[str, Rows]:
    absent = np.flatnonzero(np.isnat(times))
    return {"bad-stamp": absent} if len(absent) else {}
