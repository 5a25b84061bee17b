"""Stamps that are text and not ISO 8601: day or month first, names of months, AM and PM, offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.market.prices import Times
from surefoot.market.rules import Rows

_PATTERN = (
    r"^(?P<a>\d{1,4}|[A-Za-z]{3,9})[-/. ](?P<b>\d{1,2}|[A-Za-z]{3,9})[-/., ] ?(?P<c>\d{1,4})"
    r"(?:,?[T ]+(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))?(?::(?P<second>\d{2}))?(?:\.(?P<fraction>\d{1,9}))?"
    r"[- ]?(?P<half>[AaPp]\.?[Mm]\.?)?)?"
    r" ?(?P<zone>Z|UTC|GMT|(?:UTC|GMT)?[+-]\d{2}:?\d{2})?$"
)
_COMPACT = (
    r"^(?P<a>\d{4})(?P<b>\d{2})(?P<c>\d{2})(?:[T ]*(?P<hour>\d{2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2}))?"
    r"(?:\.(?P<fraction>\d{1,9}))?(?P<half>)?)? ?(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?$"
)
_MONTHS = dict(
    zip(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), range(1, 13), strict=True)
)
FIRST_YEAR, LAST_YEAR = 1678, 2261
"""What nanoseconds hold."""
Numbers = NDArray[np.int64]


@dataclass
class Parsed:
    """Stamps out of text, and what is wrong with them."""

    times: Times
    aware: bool
    dates_only: bool
    marked: bool = False
    """Whether hours come with AM and PM."""
    faults: dict[str, Rows] = field(default_factory=dict)
    general: list[tuple[str, str]] = field(default_factory=list)


def parse_text(pa: Any, text: Any, dates: str | None) -> Parsed:
    """Read every cell by one pattern; `dates` says the order of day and month where the file does not show it."""
    compact = pa.compute.match_substring_regex(text, r"^\d{8}")
    pattern = _COMPACT if pa.compute.all(compact.fill_null(True)).as_py() else _PATTERN
    groups = pa.compute.extract_regex(text, pattern)
    matched = np.asarray(groups.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)
    field_of = {
        name: groups.field(name) for name in ("a", "b", "c", "hour", "minute", "second", "fraction", "half", "zone")
    }
    result = Parsed(np.full(len(text), np.datetime64("NaT", "ns")), False, False)
    if matched.any():
        _fill(pa, result, field_of, matched, dates)
    bad = np.flatnonzero(np.isnat(result.times))
    if len(bad) and not result.general:
        result.faults["bad-stamp"] = np.setdiff1d(bad, np.concatenate([*result.faults.values(), bad[:0]]))
        if len(result.faults["bad-stamp"]) == 0:
            del result.faults["bad-stamp"]
    return result


def _fill(pa: Any, result: Parsed, groups: dict[str, Any], matched: NDArray[np.bool_], dates: str | None) -> None:
    order = _order(pa, result, groups, matched, dates)
    if order is None:
        return
    parts = {key: _number(pa, groups[letter], months=True) for letter, key in zip("abc", order, strict=True)}
    short = pa.compute.utf8_length(groups["abc"[order.index("y")]]).fill_null(0).to_numpy(zero_copy_only=False) <= 2
    year = np.where(short, parts["y"] + np.where(parts["y"] < 70, 2000, 1900), parts["y"])
    absurd = matched & ((year < FIRST_YEAR) | (year > LAST_YEAR))
    if absurd.any():
        result.faults["epoch-unit"] = np.flatnonzero(absurd)
    year = np.where(absurd, FIRST_YEAR, year)
    first = ((year - 1970) * 12 + parts["m"] - 1).astype("M8[M]")
    day = first.astype("M8[D]") + (parts["d"] - 1).astype("m8[D]")
    hour, minute, second = (_number(pa, groups[name]) for name in ("hour", "minute", "second"))
    result.marked = bool(pa.compute.any(pa.compute.not_equal(groups["half"].fill_null(""), "")).as_py())
    clock, valid_hour = _clock(pa, groups, hour)
    fraction = _fraction(pa, groups["fraction"])
    right = matched & (parts["m"] >= 1) & (parts["m"] <= 12) & (parts["d"] >= 1) & (day.astype("M8[M]") == first)
    right &= ~absurd & valid_hour & (minute < 60) & (second < 60)
    seconds = (clock * 3600 + minute * 60 + second).astype("m8[s]")
    times = day.astype("M8[ns]") + seconds.astype("m8[ns]") + fraction.astype("m8[ns]")
    zones = np.asarray(pa.compute.not_equal(groups["zone"].fill_null(""), "").to_numpy(zero_copy_only=False), np.bool_)
    result.aware = bool(zones[matched].mean() > 0.5)
    mixed = matched & (zones != result.aware)
    if mixed.any():
        result.faults["mixed-zones"] = np.flatnonzero(mixed)
    if zones.any():
        times = times - _offset(pa, groups["zone"]).astype("m8[s]").astype("m8[ns]")
    result.times[right] = times[right]
    hours_given = pa.compute.not_equal(groups["hour"].fill_null(""), "")
    result.dates_only = not pa.compute.any(hours_given).as_py()


def _order(
    pa: Any, result: Parsed, groups: dict[str, Any], matched: NDArray[np.bool_], dates: str | None
) -> str | None:
    """Which of the three is year, month and day; None if it cannot be known."""
    a, b = _number(pa, groups["a"], months=True)[matched], _number(pa, groups["b"], months=True)[matched]
    lengths = pa.compute.utf8_length(groups["a"]).fill_null(0).to_numpy(zero_copy_only=False)[matched]
    if np.mean(lengths == 4) > 0.5 and not _has_letters(pa, groups["a"]):
        return "ymd"
    if _has_letters(pa, groups["b"]):
        return "dmy"
    if _has_letters(pa, groups["a"]):
        return "mdy"
    if dates in ("dmy", "mdy"):
        return dates
    day_first, month_first = int((a > 12).sum()), int((b > 12).sum())
    if day_first and not month_first:
        return "dmy"
    if month_first and not day_first:
        return "mdy"
    if day_first:
        few, many = ("dmy", "mdy") if day_first < month_first else ("mdy", "dmy")
        rows = np.flatnonzero(matched)[(a if few == "dmy" else b) > 12]
        result.faults["date-order"] = rows
        return many
    result.general.append(("date-order", "no stamp has a number above twelve in the place of day or month"))
    return None


def _has_letters(pa: Any, column: Any) -> bool:
    return bool(pa.compute.any(pa.compute.match_substring_regex(column, "[A-Za-z]")).as_py())


def _number(pa: Any, column: Any, months: bool = False) -> Numbers:
    """Digits as numbers, names of months too; 0 where there is nothing."""
    if months and _has_letters(pa, column):
        names = [str(cell or "")[:3].lower() for cell in column.to_pylist()]
        return np.array([_MONTHS.get(name, int(name) if name.isdigit() else 0) for name in names], dtype=np.int64)
    plain = pa.compute.if_else(pa.compute.equal(column, ""), "0", column).fill_null("0")
    return np.asarray(plain.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _clock(pa: Any, groups: dict[str, Any], hour: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Hours from 0 to 23, and whether they are."""
    half = pa.compute.utf8_lower(groups["half"].fill_null(""))
    given = np.asarray(pa.compute.not_equal(half, "").to_numpy(zero_copy_only=False), np.bool_)
    later = np.asarray(pa.compute.starts_with(half, "p").to_numpy(zero_copy_only=False), np.bool_)
    hours = np.where(given, hour % 12 + 12 * later, hour)
    return hours, np.where(given, (hour >= 1) & (hour <= 12), hour < 24)


def _fraction(pa: Any, column: Any) -> Numbers:
    """Digits after the point, as nanoseconds."""
    return _number(pa, pa.compute.utf8_rpad(column.fill_null(""), 9, "0"))


def _offset(pa: Any, column: Any) -> Numbers:
    """Seconds east of Greenwich."""
    digits = pa.compute.replace_substring_regex(column.fill_null(""), "[^0-9+-]", "")
    kinds = pa.compute.dictionary_encode(digits)
    known = [
        (-1 if kind[:1] == "-" else 1) * (int(kind[1:3]) * 3600 + int(kind[3:5]) * 60) if kind else 0
        for kind in kinds.dictionary.to_pylist()
    ]
    seconds: Numbers = np.array(known, dtype=np.int64)[kinds.indices.to_numpy(zero_copy_only=False)]
    return seconds
