"""Real data by name, out of packages that ship them; nothing of them is copied into this one.

The packages' licences are those of their code. What is known of the licence of the *data* stands beside each set.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from surefoot.errors import MissingExtraError
from surefoot.market.reading import MAX_BYTES, Table, read_csv_bytes, read_file_bytes
from surefoot.market.rules import Findings


@dataclass(frozen=True)
class DataSet:
    """Where a data set is, what it is, and how it is read."""

    name: str
    package: str
    """The module that ships it."""
    extra: str
    """The extra of surefoot that installs the package."""
    file: str
    """Within the package."""
    instrument: str
    origin: str
    licence: str
    """Of the data, as far as it is known."""
    calendar: str = "none"
    timezone: str | None = None
    stamp: str | None = None
    dates: str | None = None
    columns: Mapping[str, str | None] | None = None
    repair: tuple[str, ...] = ()
    table: Callable[[Findings], Table | None] | None = None
    """How it is read, if it is not a plain file."""

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return find_spec(self.package) is not None

    def path(self) -> Path:
        """Of the file; the package is not imported, as some do much when they are."""
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            line = f'pip install "surefoot[{self.extra}]"'
            raise MissingExtraError(f"the data set {self.name!r} needs the package {self.package}: {line}")
        return Path(spec.submodule_search_locations[0]) / self.file


_UNSTATED = (
    "not stated by the package; its columns are those of a Yahoo! Finance download, whose terms are to be read "
    "before it is passed on"
)
_ECB_CURRENCIES = (
    "USD JPY CZK DKK GBP HUF PLN RON SEK CHF ISK NOK TRY AUD BRL "
    "CAD CNY HKD IDR ILS INR KRW MXN MYR NZD PHP SGD THB ZAR"
)


def _ecb(currency: str) -> DataSet:
    name = f"ecb-eur{currency.lower()}"

    def table(findings: Findings) -> Table | None:
        return _zipped(find(name).path(), findings)

    return DataSet(
        name,
        package="currency_converter",
        extra="market",
        file="eurofxref-hist.zip",
        instrument=f"EUR{currency}",
        origin=f"euro foreign exchange reference rates of the European Central Bank, {currency} for one euro",
        licence="free to use if the ECB is named as the source; for information only, not for transactions",
        timezone="Europe/Berlin",
        columns={"time": "Date", "close": currency},
        repair=("drop_missing", "sort"),  # the file runs backwards, and a currency has not always been quoted
        table=table,
    )


DATA_SETS = {
    data_set.name: data_set
    for data_set in (
        DataSet(
            "sp500",
            package="arch",
            extra="market",
            file="data/sp500/sp500.csv.gz",
            instrument="S&P 500",
            origin="S&P 500 index, daily, as shipped by arch",
            licence=_UNSTATED,
            calendar="XNYS",
            dates="mdy",
        ),
        DataSet(
            "nasdaq",
            package="arch",
            extra="market",
            file="data/nasdaq/nasdaq.csv.gz",
            instrument="NASDAQ Composite",
            origin="NASDAQ Composite index, daily, as shipped by arch",
            licence=_UNSTATED,
            calendar="XNYS",
            dates="mdy",
        ),
        DataSet(
            "wti",
            package="arch",
            extra="market",
            file="data/wti/wti.csv.gz",
            instrument="WTI crude oil",
            origin="spot price at Cushing, FRED series DCOILWTICO of the U.S. Energy Information Administration",
            licence="public domain according to FRED, which asks for a citation",
            timezone="America/New_York",
            dates="mdy",
            columns={"close": "DCOILWTICO"},
            repair=("drop_missing",),  # holidays are rows without a price
        ),
        DataSet(
            "eurusd-hourly",
            package="gym_anytrading",
            extra="hourly",
            file="datasets/data/FOREX_EURUSD_1H_ASK.csv",
            instrument="EURUSD",
            origin="EURUSD ask prices of 2017, hourly, stamps of the open in UTC, as shipped by gym-anytrading",
            licence="not stated; the package is MIT, its source of prices is not named",
            calendar="fx",
            timezone="UTC",
            stamp="open",
            dates="dmy",
        ),
        *map(_ecb, _ECB_CURRENCIES.split()),
    )
}


def names() -> list[str]:
    """Of all data sets."""
    return list(DATA_SETS)


def is_data_set(source: Any) -> bool:
    """Whether it is the name of a data set."""
    return isinstance(source, str) and source in DATA_SETS


def find(name: str) -> DataSet:
    """By its name."""
    return DATA_SETS[name]


def _zipped(path: Path, findings: Findings) -> Table | None:
    """The one CSV file within a zip file; the fingerprint is that of the zip file."""
    data = read_file_bytes(path, findings)
    if data is None:
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(archive.namelist()[0]) as member:
            text = member.read(MAX_BYTES + 1)
    except (zipfile.BadZipFile, IndexError, OSError) as error:
        findings.add("unreadable", f"broken zip file ({error})")
        return None
    if len(text) > MAX_BYTES:
        findings.add("too-large", "the file is too large once it is unpacked")
        return None
    return read_csv_bytes(text, data, findings)
