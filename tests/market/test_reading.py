"""Formats, columns, stamps and fingerprints of sound data."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.errors import ConfigError, DataError, MissingExtraError, StorageError, SurefootWarning
from surefoot.market import Prices, load_prices
from surefoot.market.load import Options, check

BARS = pd.DataFrame(
    {
        "open": [10.0, 10.5, 10.6, 10.4],
        "high": [11.0, 11.0, 11.0, 11.0],
        "low": [9.0, 10.0, 10.0, 10.0],
        "close": [10.5, 10.6, 10.4, 10.5],
        "volume": [100, 110, 120, 130],
    },
    index=pd.date_range("2020-01-02 10:00", periods=4, freq="h", name="time"),
)
HOUR = np.timedelta64(1, "h")
FIRST = np.datetime64("2020-01-02T10:00", "ns")


def equal(a: Prices, b: Prices) -> bool:
    columns = ("opens_at", "closes_at", "open", "high", "low", "close", "volume")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in columns)


def csv(folder: Path, text: str, name: str = "prices.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def closes(stamps: list[str], **options: Any) -> np.ndarray[Any, Any]:
    """The closes' times of a data frame with these stamps as text."""
    frame = pd.DataFrame({"time": stamps, "close": [10 + i % 3 * 0.1 for i in range(len(stamps))]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_prices(frame, **options).closes_at


def test_csv_parquet_and_frames_of_both_libraries_give_the_same_bars(tmp_path: Path) -> None:
    BARS.to_csv(tmp_path / "a.csv")
    BARS.to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "a.csv").read_bytes())
    BARS.to_csv(tmp_path / "semicolon.csv", sep=";", decimal=",")
    first = load_prices(BARS, stamp="open")
    for source in ("a.csv", "a.parquet", "a.csv.gz", "bom.csv"):
        assert equal(load_prices(tmp_path / source, stamp="open"), first), source
    assert equal(load_prices(pl.from_pandas(BARS.reset_index()), stamp="open"), first)
    assert equal(load_prices(tmp_path / "semicolon.csv", stamp="open", decimal=","), first)
    assert first.opens_at.tolist() == (FIRST + HOUR * np.arange(4)).tolist()
    assert first.closes_at.tolist() == (FIRST + HOUR * np.arange(1, 5)).tolist()
    assert first.volume is not None
    assert first.volume.tolist() == [100, 110, 120, 130]


def test_stamps_of_the_close_end_the_bar() -> None:
    prices = load_prices(BARS, stamp="close")
    assert prices.closes_at[0] == FIRST
    assert prices.opens_at[0] == FIRST - HOUR


def test_a_bar_that_the_next_one_cuts_short_closes_when_that_one_opens() -> None:
    frame = BARS.set_axis(
        pd.DatetimeIndex(["2020-01-02 10:00", "2020-01-02 11:00", "2020-01-02 11:30", "2020-01-02 12:30"])
    )
    prices = load_prices(frame, stamp="open")
    assert prices.closes_at[1] == np.datetime64("2020-01-02T11:30")
    assert (prices.opens_at[1:] >= prices.closes_at[:-1]).all()


def test_closes_within_the_day_are_moments_unless_stamped_by_the_open() -> None:
    frame = BARS[["close"]]
    moment, opened = load_prices(frame), load_prices(frame, stamp="open")
    assert moment.closes_at[0] == moment.opens_at[0] == FIRST
    assert opened.closes_at[0] == opened.opens_at[0] == FIRST + HOUR
    assert not moment.has_ohlc


@pytest.mark.parametrize("stamp", [None, "open", "close"])
def test_a_daily_bar_is_known_when_its_session_is_over(stamp: str | None) -> None:
    """A date that stood for a close at midnight would hand out the close in the morning."""
    frame = BARS.set_axis(pd.DatetimeIndex(["2020-01-02", "2020-01-03", "2020-01-06", "2020-01-07"]))
    assert load_prices(frame, stamp=stamp).closes_at[0] == np.datetime64("2020-01-03T00:00")
    tokyo = load_prices(frame, stamp=stamp, timezone="Asia/Tokyo")
    assert tokyo.closes_at[0] == np.datetime64("2020-01-02T15:00")
    exchange = load_prices(frame, stamp=stamp, calendar="XNYS")
    assert (exchange.opens_at[0], exchange.closes_at[0]) == (
        np.datetime64("2020-01-02T14:30"),
        np.datetime64("2020-01-02T21:00"),
    )
    fx = load_prices(frame, stamp=stamp, calendar="fx")
    assert (fx.opens_at[0], fx.closes_at[0]) == (np.datetime64("2020-01-01T22:00"), np.datetime64("2020-01-02T22:00"))


def test_midnights_of_a_zone_name_days_too() -> None:
    days = pd.DatetimeIndex(["2020-03-06", "2020-03-07", "2020-03-08", "2020-03-09"], tz="America/New_York")
    prices = load_prices(BARS.set_axis(days), timezone="America/New_York")
    assert prices.closes_at[2] - prices.opens_at[2] == np.timedelta64(23, "h")  # the clock went forward


def test_weekly_bars_want_to_know_what_their_date_means() -> None:
    weekly = BARS.set_axis(pd.date_range("2020-01-06", periods=4, freq="7D"))
    with pytest.raises(DataError, match="stamp-unknown"):
        load_prices(weekly)
    assert load_prices(weekly, stamp="open").closes_at[0] == np.datetime64("2020-01-13")
    assert load_prices(weekly, stamp="close").closes_at[0] == np.datetime64("2020-01-07")


@pytest.mark.parametrize(
    ("stamps", "second"),
    [
        (["2020-01-02 10:00:00", "2020-01-02 11:00:00"], "2020-01-02T11:00"),
        (["2020-01-02T10:00Z", "2020-01-02T11:00Z"], "2020-01-02T11:00"),
        (["2020-01-02T10:00+02:00", "2020-01-02T11:00+02:00"], "2020-01-02T09:00"),
        (["2020-01-02 10:00:00.250", "2020-01-02 11:00:00.250"], "2020-01-02T11:00:00.250"),
        (["13.01.2020 10:00:00.000", "13.01.2020 11:00:00.500"], "2020-01-13T11:00:00.500"),
        (["1/13/2020 10:00", "1/13/2020 11:00"], "2020-01-13T11:00"),
        (["1/13/2020 11:00 AM", "1/13/2020 12:00 PM"], "2020-01-13T12:00"),
        (["2017-07-01 11-AM", "2017-07-01 12-PM"], "2017-07-01T12:00"),
        (["2017-07-01 12-AM", "2017-07-01 01-AM"], "2017-07-01T01:00"),
        (["20200113 100000", "20200113 110000"], "2020-01-13T11:00"),
        (["13-Jan-2020 10:00", "13-Jan-2020 11:00"], "2020-01-13T11:00"),
        (["Jan 13, 2020 10:00", "Jan 13, 2020 11:00"], "2020-01-13T11:00"),
        (["2020/01/13 10:00", "2020/01/13 11:00"], "2020-01-13T11:00"),
        (["1/13/2020 10:00 +0100", "1/13/2020 11:00 +0100"], "2020-01-13T10:00"),
        (["1577934000", "1577937600"], "2020-01-02T04:00"),
        (["1577934000000", "1577937600000"], "2020-01-02T04:00"),
        (["1577934000000000", "1577937600000000"], "2020-01-02T04:00"),
        (["1577934000000000000", "1577937600000000001"], "2020-01-02T04:00:00.000000001"),
        (["1577934000.5", "1577937600.5"], "2020-01-02T04:00:00.5"),
    ],
)
def test_forms_of_stamps(stamps: list[str], second: str) -> None:
    assert closes(stamps)[1] == np.datetime64(second)


def test_numbers_of_dates_are_dates() -> None:
    frame = pd.DataFrame({"date": [20200102, 20200103, 20200106], "close": [1.0, 1.1, 1.0]})
    assert load_prices(frame).closes_at[0] == np.datetime64("2020-01-03")


def test_the_order_of_day_and_month_is_taken_from_the_user() -> None:
    stamps = ["02/01/2020", "03/01/2020", "04/01/2020"]
    assert closes(stamps, dates="dmy")[0] == np.datetime64("2020-01-03")
    assert closes(stamps, dates="mdy")[0] == np.datetime64("2020-02-02")


def test_the_unit_of_numbers_is_taken_from_the_user() -> None:
    frame = pd.DataFrame({"time": [0, 3600, 7200], "close": [1.0, 1.1, 1.0]})
    with pytest.raises(DataError, match="epoch-unit"):
        load_prices(frame)
    frame["time"] += 200_000_000  # May 1976
    assert load_prices(frame, dates="s").closes_at[0] == np.datetime64(200_000_000, "s")


def test_local_times_become_utc_and_the_repeated_hour_is_told_by_the_order() -> None:
    stamps = ["2020-11-01 00:00", "2020-11-01 01:00", "2020-11-01 01:00", "2020-11-01 02:00"]
    utc = closes(stamps, timezone="America/New_York")
    assert utc.tolist() == [np.datetime64(f"2020-11-01T0{h}:00", "ns").astype(int) for h in (4, 5, 6, 7)]


def test_dates_and_times_of_day_in_two_columns_are_joined(tmp_path: Path) -> None:
    text = "<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\n"
    text += "".join(f"2020.01.02\t{h}:00:00\t1.1\t1.3\t1.0\t1.2\t7\n" for h in (10, 11, 12))
    prices = load_prices(csv(tmp_path, text), stamp="open")
    assert prices.opens_at[1] == np.datetime64("2020-01-02T11:00")
    assert prices.volume is not None


def test_one_of_several_instruments_is_chosen_by_name(tmp_path: Path) -> None:
    text = "date,ticker,close\n" + "".join(
        f"2020-01-0{d},{t},{d + w}\n" for d in (2, 3, 4) for t, w in (("AAPL", 0), ("MSFT", 9))
    )
    path = csv(tmp_path, text)
    prices = load_prices(path, instrument="MSFT")
    assert (prices.instrument, prices.close.tolist()) == ("MSFT", [11, 12, 13])
    with pytest.raises(DataError, match=r"did you mean 'AAPL'\?"):
        load_prices(path, instrument="APPL")


def test_one_column_for_each_instrument(tmp_path: Path) -> None:
    path = csv(tmp_path, "Date,USD,JPY\n2020-01-02,1.1,120\n2020-01-03,1.2,121\n")
    assert load_prices(path, instrument="JPY").close.tolist() == [120, 121]
    assert load_prices(path, columns={"close": "USD"}).close.tolist() == [1.1, 1.2]


def test_a_file_without_header_takes_names(tmp_path: Path) -> None:
    path = csv(tmp_path, "2020-01-02,1.1,5\n2020-01-03,1.2,6\n")
    prices = load_prices(path, columns=("time", "close", "volume"))
    assert prices.close.tolist() == [1.1, 1.2]
    assert prices.volume is not None
    assert load_prices(BARS, stamp="open", columns={"volume": None}).volume is None


def test_further_columns_are_kept_and_cut_with_the_rest() -> None:
    prices = load_prices(BARS.assign(mood=[0.1, 0.2, 0.3, 0.4]), stamp="open", extra=("mood",))
    assert prices.extra["mood"].tolist() == [0.1, 0.2, 0.3, 0.4]
    cut = prices.cut(slice(1, 3))
    assert cut.extra["mood"].tolist() == [0.2, 0.3]
    assert cut.close.tolist() == [10.6, 10.4]
    with pytest.raises(DataError, match=r"did you mean 'volume'\?"):
        load_prices(BARS, stamp="open", extra=("volumes",))


def test_the_fingerprint_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    path = csv(tmp_path, "time,close\n2020-01-02,1\n2020-01-03,2\n")
    assert load_prices(path).fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_fingerprint_of_a_frame_is_its_content() -> None:
    mine = load_prices(BARS.reset_index(), stamp="open").fingerprint
    assert load_prices(pl.from_pandas(BARS.reset_index()), stamp="open").fingerprint == mine
    assert load_prices(BARS.reset_index().convert_dtypes(), stamp="open").fingerprint == mine
    assert load_prices(BARS.reset_index().assign(volume=[1, 2, 3, 4]), stamp="open").fingerprint != mine
    assert load_prices(BARS.reset_index().rename(columns={"volume": "vol"}), stamp="open").fingerprint != mine


def test_repairs_are_named_and_recorded(tmp_path: Path) -> None:
    text = (
        "time,close\n2020-01-03,2\n2020-01-02,1\n2020-01-03,2\n2020-01-04,\n2020-01-05,-1\n2020-01-06,3\n2020-01-06,4\n"
    )
    path = csv(tmp_path, text)
    with pytest.raises(DataError):
        load_prices(path)
    prices = load_prices(path, repair=("keep_last", "sort", "drop_missing", "drop_invalid", "drop_duplicates"))
    assert prices.close.tolist() == [1, 2, 4]
    assert prices.repairs == (
        "drop_missing: 1 rows left out",
        "drop_invalid: 1 rows left out",
        "sort: 2 rows moved",
        "drop_duplicates: 1 rows left out",
        "keep_last: 1 rows left out",
    )


def test_a_repair_that_had_nothing_to_do_is_not_recorded() -> None:
    assert load_prices(BARS, stamp="open", repair=("sort", "drop_missing", "drop_duplicates")).repairs == ()


def test_filling_forward_looks_back_only() -> None:
    frame = BARS.astype(float)
    frame.iloc[0, 3] = np.nan
    frame.iloc[2, :] = np.nan
    with pytest.warns(SurefootWarning, match="zero-volume"):  # what was filled is seen to have no trade
        prices = load_prices(frame, stamp="open", repair=("forward_fill",))
    assert prices.close.tolist() == [10.6, 10.6, 10.5]
    assert prices.open is not None
    assert prices.volume is not None
    assert (prices.open[1], prices.volume[1]) == (10.6, 0.0)
    assert prices.repairs == ("forward_fill: 5 cells filled, 1 leading rows left out",)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"repair": ("fill",)}, "no repair is called 'fill'"),
        ({"repair": ("drop_missing", "forward_fill")}, "choose one"),
        ({"stamp": "middle"}, "stamp='middle' is not known"),
        ({"accept": ("missing",)}, "cannot be accepted"),
        ({"timezone": "Europe/Atlantis"}, "timezone 'Europe/Atlantis' is not known"),
        ({"timezone": "../../etc/passwd"}, "is not known"),
        ({"dates": "weeks"}, "dates='weeks'"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load_prices(BARS, **options)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such data set \(did you mean 'sp500'\?\)"):
        load_prices("sp50")


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    assert check(tmp_path / "pipe.csv").problems[0].rule == "unreadable"
    with pytest.raises((StorageError, DataError)):
        load_prices(tmp_path)


def test_a_missing_package_is_told_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r'pip install "surefoot\[market\]"'):
        load_prices(BARS)


def test_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from surefoot.market import reading

    BARS.to_csv(tmp_path / "a.csv")
    BARS.to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"time,close\n" * 10_000))
    monkeypatch.setattr(reading, "MAX_ROWS", 3)
    rules = [check(tmp_path / name).problems[0].rule for name in ("a.csv", "a.parquet")]
    monkeypatch.setattr(reading, "MAX_BYTES", 1000)
    rules += [check(tmp_path / "a.csv.gz").problems[0].rule]
    assert rules == ["too-large"] * 3


def test_a_million_bars_take_seconds(tmp_path: Path) -> None:
    count = 1_000_000
    rng = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 1e-4, count)))
    stamps = np.datetime64("2015-01-01", "us") + np.timedelta64(1, "m") * np.arange(count)
    pl.DataFrame({"time": stamps, "close": close}).write_csv(tmp_path / "a.csv", datetime_format="%Y-%m-%d %H:%M:%S")
    start = time.perf_counter()
    report = check(tmp_path / "a.csv", Options(calendar="crypto"))
    assert time.perf_counter() - start < 10
    assert (report.bars, report.problems) == (count, [])


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=300), suffix=st.sampled_from([".csv", ".parquet"]))
def test_no_bytes_break_the_reader(data: bytes, suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(data)
    report = check(path)
    assert report.prices is not None or report.errors


@settings(max_examples=200, deadline=None)
@given(
    cells=st.lists(
        st.tuples(
            st.sampled_from(["2020-01-02", "2020-01-03", "1/2/2020", "1577934000", "x", "", "2020-01-02 01:00Z"]),
            st.sampled_from(["1", "2.5", "-1", "", "nan", "inf", "1,5", "1.000,5", "x", "1e400"]),
        ),
        max_size=6,
    )
)
def test_no_mixture_of_cells_breaks_the_checks(
    cells: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "cells.csv"
    path.write_text("time;close\n" + "".join(f"{stamp};{price}\n" for stamp, price in cells))
    report = check(path, Options(now="2026-01-01"))
    assert (report.prices is None) == bool(report.errors)
    if report.prices is not None:
        assert (np.diff(report.prices.closes_at) > np.timedelta64(0)).all()
        assert (report.prices.close > 0).all()
