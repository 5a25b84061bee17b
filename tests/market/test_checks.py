"""Every kind of malformed file is refused, or warned of, with row, column, rule and a way out."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from surefoot.errors import DataError, SurefootWarning
from surefoot.market.load import Options, check, load_prices
from surefoot.market.rules import LISTED_ROWS, RULES

NOW = "2026-01-01"
DAYS = [
    "time,open,high,low,close,volume",
    "2020-01-02,10,11,9,10.5,100",
    "2020-01-03,10.5,11,10,10.6,110",
    "2020-01-06,10.6,11,10,10.4,120",
    "2020-01-07,10.4,11,10,10.5,130",
    "2020-01-08,10.5,11,10,10.7,140",
]
"""A sound file; lines are counted from 1, so that line 4 is that of 6 January."""


def with_line(number: int, line: str) -> str:
    """The sound file with another line."""
    lines = [*DAYS]
    lines[number - 1] = line
    return "\n".join(lines) + "\n"


def closes(stamps: list[str]) -> str:
    """Closes only, at these stamps."""
    return "time,close\n" + "".join(f"{stamp},{10 + 0.01 * (i % 3)}\n" for i, stamp in enumerate(stamps))


def hours(first: str, count: int, form: str = "%Y-%m-%d %H:%M") -> list[str]:
    return [str(stamp.strftime(form)) for stamp in pd.date_range(first, periods=count, freq="h")]


def parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


CALM = 10 + 0.01 * np.sin(np.arange(40.0))


def calm_days(change: Callable[[np.ndarray[Any, Any]], None]) -> str:
    """Forty closes that hardly move, but for a change."""
    values = CALM.copy()
    change(values)
    days = pd.date_range("2020-01-01", periods=40).strftime("%Y-%m-%d")
    return "time,close\n" + "".join(f"{d},{v:.6f}\n" for d, v in zip(days, values, strict=True))


def halve(values: np.ndarray[Any, Any]) -> None:
    values[20:] /= 2


def tenfold(values: np.ndarray[Any, Any]) -> None:
    values[20:] *= 10


def one_wrong_tick(values: np.ndarray[Any, Any]) -> None:
    values[20] *= 1.3


GOOD = "\n".join(DAYS) + "\n"
# (name, content, options, expected (row, column, rule))
CASES: list[tuple[str, str | bytes, dict[str, Any], tuple[int | None, str | None, str]]] = [
    ("no bytes", "", {}, (None, None, "empty")),
    ("blank lines only", "\n\n\n", {}, (None, None, "empty")),
    ("header only", DAYS[0] + "\n", {}, (None, None, "empty")),
    ("UTF-16", GOOD.encode("utf-16"), {}, (None, None, "encoding")),
    ("Latin-1", GOOD.replace("120", "é").encode("latin-1"), {}, (4, None, "encoding")),
    ("a zero byte", GOOD.replace("120", "\0").encode(), {}, (4, None, "encoding")),
    ("one column", GOOD.replace(",", " "), {}, (1, None, "wrong-delimiter")),
    ("a web address above the header", "www.example.org\n" + GOOD, {}, (1, None, "preamble")),
    ("no header", "\n".join(DAYS[1:]), {}, (1, None, "no-header")),
    ("a short row", with_line(4, "2020-01-06,10.6,11"), {}, (4, None, "ragged-row")),
    ("a long row", with_line(4, "2020-01-06,10,6,11,10,10,4,120"), {}, (4, None, "ragged-row")),
    ("truncated Parquet", b"PAR1" + b"\x15\x04" * 40, {}, (None, None, "unreadable")),
    ("text called Parquet", b"PAR1 is how it begins", {}, (None, None, "unreadable")),
    ("broken gzip", b"\x1f\x8b\x08\x00 nothing", {}, (None, None, "unreadable")),
    ("one name twice", GOOD.replace("volume", "close"), {}, (None, "close", "duplicate-column")),
    ("no stamps", GOOD.replace("time,", "bar,"), {}, (None, None, "no-time")),
    ("no closes", GOOD.replace(",close", ",end"), {}, (None, None, "no-close")),
    ("no low", GOOD.replace(",low", ",lo"), {}, (None, None, "incomplete-ohlc")),
    ("a column that is not there", GOOD, {"columns": {"close": "Close"}}, (None, "Close", "unknown-column")),
    ("an empty cell", with_line(4, "2020-01-06,10.6,11,10,,120"), {}, (4, "close", "missing")),
    ("NaN", with_line(4, "2020-01-06,NaN,11,10,10.4,120"), {}, (4, "open", "missing")),
    ("text for a number", with_line(4, "2020-01-06,10.6,11,10,ten,120"), {}, (4, "close", "not-a-number")),
    ("infinite", with_line(4, "2020-01-06,10.6,inf,10,10.4,120"), {}, (4, "high", "infinite")),
    ("too large for a float", with_line(4, "2020-01-06,10.6,1e999,10,10.4,120"), {}, (4, "high", "infinite")),
    ("grouped digits", with_line(4, '2020-01-06,10.6,11,10,10.4,"1,120"'), {}, (4, "volume", "thousands-separator")),
    ("a decimal comma", with_line(4, '2020-01-06,10.6,11,10,"10,4",120'), {}, (4, "close", "decimal-comma")),
    ("no date", with_line(4, "yesterday,10.6,11,10,10.4,120"), {}, (4, "time", "bad-stamp")),
    ("a date that no month has", with_line(4, "2020-02-30,10.6,11,10,10.4,120"), {}, (4, "time", "bad-stamp")),
    ("day or month first", closes(["01/02/2020", "02/02/2020", "03/02/2020"]), {}, (None, "time", "date-order")),
    ("day and month first", closes(["01/13/2020", "01/14/2020", "15/01/2020"]), {}, (4, "time", "date-order")),
    ("seconds and milliseconds", closes(["1577934000", "1577937600", "1577941200000"]), {}, (4, "time", "epoch-unit")),
    ("Excel's day numbers", closes(["43831", "43832", "43833"]), {}, (None, "time", "epoch-unit")),
    ("a year that is absurd", with_line(4, "0020-01-06,10.6,11,10,10.4,120"), {}, (4, "time", "epoch-unit")),
    ("hours without AM and PM", closes(hours("2020-01-01", 48, "%Y-%m-%d %I:%M")), {}, (3, "time", "am-pm")),
    ("some with a zone", closes(["2020-01-01 10:00Z", "2020-01-01 11:00Z", "2020-01-01 12:00"]), {},
     (4, "time", "mixed-zones")),
    ("an hour that was skipped", closes(["2020-03-08 01:00", "2020-03-08 02:00", "2020-03-08 03:00"]),
     {"timezone": "America/New_York"}, (3, "time", "dst-gap")),
    ("an hour that came twice", closes(["2020-11-01 00:00", "2020-11-01 01:00", "2020-11-01 02:00"]),
     {"timezone": "America/New_York"}, (3, "time", "dst-repeat")),
    ("opens or closes", GOOD.replace("2020-01-0", "2020-01-02 0").replace(",1", ":00,1", 5), {},
     (None, "time", "stamp-unknown")),
    ("a bar of the future", with_line(6, "2031-01-08,10.5,11,10,10.7,140"), {}, (6, "time", "future-bar")),
    ("a stamp twice", with_line(5, "2020-01-06,10.4,11,10,10.5,130"), {}, (5, "time", "duplicate-stamp")),
    ("not sorted", with_line(5, "2020-01-01,10.4,11,10,10.5,130"), {}, (5, "time", "unsorted")),
    ("newest first", "\n".join([DAYS[0], *DAYS[:0:-1]]), {}, (None, "time", "unsorted")),
    ("one bar", "\n".join(DAYS[:2]), {}, (None, None, "too-short")),
    ("no distance that bars share", closes([f"2020-01-01 00:{m:02d}" for m in (0, 1, 3, 6, 10, 15)]), {},
     (None, "time", "irregular")),
    ("a price of zero", with_line(4, "2020-01-06,10.6,11,0,10.4,120"), {}, (4, "low", "non-positive")),
    ("a negative price", with_line(4, "2020-01-06,10.6,11,-1,10.4,120"), {}, (4, "low", "non-positive")),
    ("high below low", with_line(4, "2020-01-06,10.6,10,11,10.4,120"), {}, (4, "high", "high-below-low")),
    ("close above high", with_line(4, "2020-01-06,10.6,11,10,11.4,120"), {}, (4, "close", "outside-range")),
    ("open below low", with_line(4, "2020-01-06,9.6,11,10,10.4,120"), {}, (4, "open", "outside-range")),
    ("a negative volume", with_line(4, "2020-01-06,10.6,11,10,10.4,-1"), {}, (4, "volume", "negative-volume")),
    ("no volume in a bar", with_line(4, "2020-01-06,10.6,11,10,10.4,0"), {}, (4, "volume", "zero-volume")),
    ("a split", calm_days(halve), {}, (22, "close", "likely-split")),
    ("a reverse split", calm_days(tenfold), {}, (22, "close", "likely-split")),
    ("a wrong tick", calm_days(one_wrong_tick), {}, (22, "close", "spike")),
    ("a feed that hung",
     closes(hours("2020-01-01", 4)) + "".join(f"{h},9\n" for h in hours("2020-01-01 04:00", 60)), {},
     (6, "close", "stale")),
    ("a calendar that nobody knows", GOOD, {"calendar": "XNYX"}, (None, None, "unknown-calendar")),
    ("a missing day", with_line(4, "2020-01-06,10.6,11,10,10.4,120").replace(DAYS[4] + "\n", ""), {"calendar": "XNYS"},
     (5, "time", "gap")),
    ("a holiday", GOOD.replace("2020-01-02", "2020-01-01"), {"calendar": "XNYS"}, (2, "time", "outside-session")),
    ("another calendar's days", closes([f"2020-01-{d:02d}" for d in (4, 5, 11, 12)]), {"calendar": "XNYS"},
     (2, "time", "wrong-calendar")),
    ("several instruments", "time,symbol,close\n2020-01-01,A,1\n2020-01-01,B,2\n", {},
     (None, "symbol", "several-instruments")),
    ("an unknown instrument", "time,symbol,close\n2020-01-01,MSFT,1\n2020-01-02,MSFT,2\n", {"instrument": "MSTF"},
     (None, "symbol", "unknown-instrument")),
    ("a Parquet column of lists",
     parquet(pd.DataFrame({"time": pd.date_range("2020", periods=2), "close": [[1], [2]]})), {},
     (0, "close", "not-a-number")),
    ("milliseconds read as nanoseconds", parquet(pd.DataFrame(
        {"time": pd.to_datetime([1577934000000, 1577937600000]), "close": [1.0, 1.1]})), {},
     (None, "time", "epoch-unit")),
]  # fmt: skip


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / ("prices.parquet" if isinstance(content, bytes) and content[:4] == b"PAR1" else "prices.csv")
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(("content", "options", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_every_kind_of_malformed_file_is_named(
    tmp_path: Path, content: str | bytes, options: dict[str, Any], expected: tuple[int | None, str | None, str]
) -> None:
    path = write(tmp_path, content)
    report = check(path, Options(now=NOW, **options))
    assert expected in [problem[:3] for problem in report.problems], report.problems
    rule = expected[2]
    problem = next(p for p in report.problems if p[:3] == expected)
    assert problem.text.endswith(RULES[rule].way_out)
    assert len(problem.text) > len(RULES[rule].way_out) + 10
    if RULES[rule].severity == "error":
        assert report.prices is None
        with pytest.raises(DataError) as caught:
            load_prices(path, now=NOW, **options)
        assert expected in [found[:3] for found in caught.value.problems]
        assert rule in str(caught.value)
    else:
        assert report.prices is not None
        with pytest.warns(SurefootWarning, match=rule):
            load_prices(path, now=NOW, **options)


def test_the_cases_are_many_and_cover_the_rules() -> None:
    tried = {case[3][2] for case in CASES}
    assert len(CASES) >= 25
    assert set(RULES) - tried == {"too-large"}


def test_a_sound_file_has_no_problem(tmp_path: Path) -> None:
    report = check(write(tmp_path, GOOD), Options(now=NOW, calendar="XNYS"))
    assert report.problems == []
    assert (report.bars, report.start, report.end) == (5, "2020-01-02T14:30:00Z", "2020-01-08T21:00:00Z")


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    lines = [
        DAYS[0],
        "2020-01-02,10,11,9,10.5,100",
        "2020-01-03,10.5,11,12,10.6,110",
        "2020-01-03,10.5,11,10,,110",
        "2020-01-02,10,11,9,-3,0",
        "2020-01-14,10.5,11,10,10.7,140",
    ]
    report = check(write(tmp_path, "\n".join(lines)), Options(now=NOW, calendar="XNYS"))
    assert {problem[:3] for problem in report.problems} == {
        (3, "high", "high-below-low"),
        (4, "close", "missing"),
        (4, "time", "duplicate-stamp"),
        (5, "close", "non-positive"),
        (5, "close", "outside-range"),
        (5, "volume", "zero-volume"),
        (5, "time", "unsorted"),
        (5, "time", "duplicate-stamp"),
        (6, "time", "gap"),
    }


def test_a_gap_tells_how_many_bars_are_missing(tmp_path: Path) -> None:
    path = write(tmp_path, "\n".join([*DAYS[:3], "2020-01-13,10.6,11,10,10.4,120"]))
    (gap,) = check(path, Options(now=NOW, calendar="XNYS")).problems
    assert (gap.row, gap.rule) == (4, "gap")
    assert gap.text.startswith("5 bars are missing before this row, from 2020-01-06")


def test_a_million_bad_cells_are_counted_not_listed(tmp_path: Path) -> None:
    stamps = pd.date_range("2000-01-01", periods=3000, freq="h").strftime("%Y-%m-%d %H:%M")
    report = check(write(tmp_path, "time,close\n" + "".join(f"{s},x\n" for s in stamps)), Options(now=NOW))
    told = [problem for problem in report.problems if problem.rule == "not-a-number"]
    assert len(told) == LISTED_ROWS + 1
    assert told[-1].text.startswith("and 2,000 more rows")


def test_a_spike_is_no_split_and_a_split_is_no_spike(tmp_path: Path) -> None:
    rules = {name: {p.rule for p in check(write(tmp_path, calm_days(change)), Options(now=NOW)).problems}
             for name, change in (("halved", halve), ("tick", one_wrong_tick))}  # fmt: skip
    assert rules == {"halved": {"likely-split"}, "tick": {"spike"}}


def test_a_judged_error_can_be_accepted_and_is_recorded(tmp_path: Path) -> None:
    prices = load_prices(write(tmp_path, calm_days(halve)), accept=("likely-split",), now=NOW)
    assert prices.repairs == ("accepted likely-split",)


def test_volume_of_zero_everywhere_is_said_once(tmp_path: Path) -> None:
    content = "time,close,volume\n" + "".join(f"2020-01-0{d},1.{d},0\n" for d in range(1, 8))
    (problem,) = check(write(tmp_path, content), Options(now=NOW)).problems
    assert (problem.row, problem.column, problem.rule) == (None, "volume", "zero-volume")


def test_blank_lines_do_not_shift_the_numbers(tmp_path: Path) -> None:
    content = "\n".join([DAYS[0], DAYS[1], "", DAYS[2], "2020-01-06,10.6,11,10,,120", DAYS[4]]) + "\n"
    (problem,) = check(write(tmp_path, content), Options(now=NOW)).problems
    assert (problem.row, problem.column, problem.rule) == (5, "close", "missing")
