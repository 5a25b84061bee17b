"""Sessions, gaps and bars outside them, against slow twins that walk through every hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.market.calendars import calendar_between, timezone_of
from surefoot.market.load import Options, Report, check

NEW_YORK = ZoneInfo("America/New_York")


def fx_is_open(time: datetime) -> bool:
    """From Sunday 17:00 to Friday 17:00 in New York, said plainly."""
    local = time.astimezone(NEW_YORK)
    day, hour = local.weekday(), local.hour
    return (day == 6 and hour >= 17) or day < 4 or (day == 4 and hour < 17)


def hourly(times: list[datetime], calendar: str, ohlc: bool = True) -> Report:
    naive = [time.astimezone(UTC).replace(tzinfo=None) for time in times]
    frame = pd.DataFrame({"time": np.array(naive, dtype="M8[ns]"), "close": 10 + np.arange(len(times)) % 3 * 0.1})
    if ohlc:
        frame = frame.assign(open=frame["close"], high=11.0, low=9.0)
    return check(frame, Options(stamp="open", calendar=calendar))


def fx_hours(first: datetime, count: int) -> list[datetime]:
    return [t for i in range(count) if fx_is_open(t := first + timedelta(hours=i))]


@pytest.mark.parametrize("first", [datetime(2020, 3, 2, tzinfo=UTC), datetime(2020, 10, 26, tzinfo=UTC)])
def test_fx_is_whole_through_changes_of_the_clock(first: datetime) -> None:
    assert hourly(fx_hours(first, 24 * 21), "fx").problems == []


def test_fx_of_four_hours_follows_the_local_clock_or_utc() -> None:
    local = [datetime(2020, 3, 1, 17, tzinfo=NEW_YORK) + timedelta(hours=4 * i) for i in range(6 * 21)]
    # Adding to a local time keeps the wall clock, which is what a broker's bars do.
    assert hourly([t for t in local if fx_is_open(t)], "fx").problems == []


@settings(max_examples=40, deadline=None)
@given(gone=st.sets(st.integers(1, 298), max_size=30), start=st.integers(0, 24 * 7))
def test_every_missing_hour_of_fx_is_counted(gone: set[int], start: int) -> None:
    whole = fx_hours(datetime(2020, 3, 2, tzinfo=UTC) + timedelta(hours=start), 24 * 30)[:300]
    kept = [t for i, t in enumerate(whole) if i not in gone]
    gaps = [p for p in hourly(kept, "fx").problems if p.rule == "gap"]
    assert sum(int(p.text.split()[0].replace(",", "")) for p in gaps) == len(gone)
    rows = [i for i, (a, b) in enumerate(pairwise(kept), 1) if whole.index(b) - whole.index(a) > 1]
    assert [p.row for p in gaps] == rows


def test_a_bar_on_a_saturday_is_outside_fx() -> None:
    times = [*fx_hours(datetime(2020, 3, 2, tzinfo=UTC), 24 * 5), datetime(2020, 3, 7, 12, tzinfo=UTC)]
    problems = [p for p in hourly(times, "fx").problems if p.rule == "outside-session"]
    assert [(p.row, "2020-03-07T12:00" in p.text) for p in problems] == [(len(times) - 1, True)]


def test_crypto_has_no_weekend() -> None:
    times = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=i) for i in range(24 * 14)]
    assert hourly(times, "crypto").problems == []
    (gap,) = hourly(times[:50] + times[53:], "crypto").problems
    assert (gap.row, gap.rule, gap.text[:18]) == (50, "gap", "3 bars are missing")


def test_minutes_of_an_exchange_and_its_half_day() -> None:
    """New York closes at 13:00 on the day after Thanksgiving."""
    minutes = [*pd.date_range("2020-11-25 14:30", "2020-11-25 20:59", freq="min"),
               *pd.date_range("2020-11-27 14:30", "2020-11-27 17:59", freq="min")]  # fmt: skip
    times = [minute.to_pydatetime().replace(tzinfo=UTC) for minute in minutes]
    assert hourly(times, "XNYS").problems == []
    (gap,) = hourly(times[:100] + times[110:], "XNYS").problems
    assert gap.text.startswith("10 bars are missing")


def test_hours_that_begin_before_the_open_are_not_outside() -> None:
    times = [datetime(2020, 11, d, h, tzinfo=UTC) for d in (23, 24, 25) for h in range(14, 21)]
    assert hourly(times, "XNYS").problems == []


def test_a_wrong_zone_shows_as_a_wrong_calendar() -> None:
    """Stamps in New York's time, read as UTC."""
    times = [datetime(2020, 11, d, h, tzinfo=UTC) for d in (23, 24, 25) for h in range(9, 16)]
    assert {p.rule for p in hourly(times, "XNYS").errors} == {"wrong-calendar"}


def test_closes_at_the_end_of_a_session_are_inside() -> None:
    times = [datetime(2020, 11, d, h, 30, tzinfo=UTC) for d in (23, 24) for h in range(14, 21)]
    frame = pd.DataFrame(
        {"time": [t.replace(tzinfo=None) for t in times], "close": 10 + np.arange(len(times)) % 3 * 0.1}
    )
    assert check(frame, Options(calendar="XNYS")).problems == []


def test_zones_of_calendars() -> None:
    assert [timezone_of(name) for name in ("fx", "crypto", "none", "XTKS")] == [
        "America/New_York",
        "UTC",
        "UTC",
        "Asia/Tokyo",
    ]


def test_days_of_an_exchange_have_its_holidays() -> None:
    days = calendar_between("XNYS", np.datetime64("2020-12-20"), np.datetime64("2020-12-31")).days
    assert np.datetime64("2020-12-25") not in days
    assert np.datetime64("2020-12-24") in days
