"""Which column of a table means what, and which rows are the chosen instrument's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.market.extra import needed
from surefoot.market.reading import Table
from surefoot.market.rules import Findings

Columns = Mapping[str, str | None] | Sequence[str] | None

_NAMES = {
    "time": ("timestamp", "datetime", "time", "date", "dtyyyymmdd", "opentime", "gmttime", "localtime", "ts", "tsevent",
             "closetime", "stamp", "unixtimestamp", "unix", "epoch", "indexlevel0"),
    "open": ("open", "o", "openprice", "first"),
    "high": ("high", "h", "highprice"),
    "low": ("low", "l", "lowprice"),
    "close": ("close", "c", "closeprice", "price", "last", "settle", "settlement", "pxlast"),
    "volume": ("volume", "vol", "v", "tickvol", "tickvolume", "basevolume"),
    "instrument": ("symbol", "ticker", "instrument", "asset", "pair", "tic"),
}  # fmt: skip
"""Names in small letters without marks, most telling first."""
ROLES = tuple(_NAMES)


@dataclass(frozen=True)
class Roles:
    """The column of each role, by position, and its name in the source."""

    place: Mapping[str, int]
    names: Mapping[str, str]
    clock: int | None = None
    """A column of times of day beside one of dates."""

    @property
    def values(self) -> list[str]:
        """The roles that hold numbers."""
        return [role for role in ("open", "high", "low", "close", "volume") if role in self.place]


def find_roles(
    table: Table, findings: Findings, columns: Columns, instrument: str | None, extra: Sequence[str]
) -> Roles | None:
    """Match names of columns to roles; None if that fails, which `findings` then explain."""
    _check_duplicates(table, findings)
    asked = dict(columns) if isinstance(columns, Mapping) else {}
    place = _matched(table, asked)
    for role, name in asked.items():
        if role not in ROLES:
            findings.add("unknown-column", f"columns= names the role {role!r}; roles are {', '.join(ROLES)}")
        elif name is not None and name not in table.names:
            findings.add("unknown-column", f"there is no column {name!r}{nearest(name, table.names)}", column=name)
    for name in extra:
        if name not in table.names:
            findings.add("unknown-column", f"there is no column {name!r}{nearest(name, table.names)}", column=name)
    header = ", ".join(table.names[:12])
    if "time" not in place:
        findings.add("no-time", f"no column is called time, date or timestamp among: {header}")
    if "close" not in place and "instrument" not in place and instrument in table.names:
        place["close"] = table.names.index(instrument)  # one column for each instrument
    elif "close" not in place:
        hint = "" if instrument is None else f", and none is called {instrument!r}{nearest(instrument, table.names)}"
        findings.add("no-close", f"no column is called close or price among: {header}{hint}")
    bar = [role for role in ("open", "high", "low") if role in place]
    if bar and len(bar) < 3:
        absent = [role for role in ("open", "high", "low") if role not in place]
        findings.add("incomplete-ohlc", f"there is {' and '.join(bar)} but no {' and '.join(absent)}")
    if findings.errors:
        return None
    names = {role: table.names[i] for role, i in place.items()}
    return Roles(place, names, _clock(table, place, asked))


def choose_instrument(
    table: Table, roles: Roles, findings: Findings, instrument: str | None
) -> tuple[str, NDArray[np.bool_] | None] | None:
    """The instrument's name and its rows (None for all); a file without names is of whatever the user says."""
    if "instrument" not in roles.place:
        return instrument or "", None
    pa = needed("pyarrow", "reading prices")
    symbols = table.columns[roles.place["instrument"]].cast(pa.string())
    known = sorted(name.strip() for name in symbols.unique().to_pylist() if name and name.strip())
    column = roles.names["instrument"]
    shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    if instrument is None and len(known) != 1:
        findings.add("several-instruments", f"the file has {len(known)} instruments: {shown}", column=column)
        return None
    chosen = known[0] if instrument is None else instrument
    if chosen not in known:
        text = f"there is no instrument {chosen!r}{nearest(chosen, known)}; the file has {shown}"
        findings.add("unknown-instrument", text, column=column)
        return None
    mine = pa.compute.equal(pa.compute.utf8_trim_whitespace(symbols), chosen).fill_null(False)
    return chosen, np.asarray(mine.to_numpy(zero_copy_only=False), dtype=np.bool_)


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint at the right spelling, or nothing."""
    folded = {other.casefold(): other for other in known}
    match = get_close_matches(name.casefold(), list(folded), n=1)
    return f" (did you mean {folded[match[0]]!r}?)" if match else ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _check_duplicates(table: Table, findings: Findings) -> None:
    seen: dict[str, str] = {}
    for name in table.names:
        plain = _plain(name)
        if plain and plain in seen:
            findings.add("duplicate-column", f"the columns {seen[plain]!r} and {name!r} have one name", column=name)
        seen.setdefault(plain, name)


def _matched(table: Table, asked: Mapping[str, str | None]) -> dict[str, int]:
    """The place of each role: as asked, else by the most telling name."""
    plain = [_plain(name) for name in table.names]
    place: dict[str, int] = {}
    for role, names in _NAMES.items():
        if role in asked:
            name = asked[role]
            if name is not None and name in table.names:
                place[role] = table.names.index(name)
            continue
        match = next((plain.index(name) for name in names if name in plain), None)
        if match is None and role == "volume":  # "Volume BTC", "Volume USD": the first
            match = next((i for i, name in enumerate(plain) if name.startswith("volume")), None)
        if match is not None:
            place[role] = match
    return place


def _clock(table: Table, place: Mapping[str, int], asked: Mapping[str, Any]) -> int | None:
    """Terminals export a column of dates and one of times of day; one of them was taken for the stamps."""
    plain = [_plain(name) for name in table.names]
    dates = next((plain.index(name) for name in ("date", "dtyyyymmdd") if name in plain), None)
    if "time" in asked or dates is None or "time" not in plain or place["time"] not in (dates, plain.index("time")):
        return None
    return plain.index("time")
