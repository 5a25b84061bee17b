"""Writes docs/market-data.md: formats, rules, repairs and data sets, from the registries of `surefoot.market`.

Run: python docs/generate_market_data.py
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from surefoot.market import bar_times, generators, repairs
from surefoot.market.rules import RULES
from surefoot.market.sources import DATA_SETS

PAGE = Path(__file__).with_name("market-data.md")

TEXT = """# Market data

Made by `python docs/generate_market_data.py`; edit that, not this.

```python
from surefoot.market import load_prices

prices = load_prices("eurusd.csv", stamp="open", calendar="fx")  # raises DataError with .problems
```

`surefoot market check FILE` names every problem with row, column and rule (exit code 0 without errors, 1 with, 2 for a
mistake of use; `--json` for programs). A row is the line of a CSV file as an editor counts it, or the position from 0
in a Parquet file or data frame. `surefoot market data` lists the data sets.

## What is read

CSV (also gzipped; comma, semicolon, tab or |), Parquet, data frames of pandas and Polars: with open, high, low, close
and perhaps volume, or with closes only. Columns are found by their names (`columns=` where names do not tell). A file
of several instruments has a column such as `symbol`, or a column for each; `instrument=` chooses. Stamps are dates,
times with or without offset, AM and PM, or numbers since 1970; those without offset are UTC unless `timezone=` says
otherwise. Files are read by pyarrow. It is as fast as Polars (a million bars of OHLCV in 0.36 s of one core as CSV,
medians of 18 for both; Parquet 0.05 s against 0.07 s), takes less memory, and names every row of a wrong width. With
all checks a million bars took 1 to 5 s as CSV, by the form of their stamps, and 0.2 to 0.3 s as Parquet, on a busy
machine.

The fingerprint of a file is the sha256 of its bytes; that of a data frame is of its content, the same for pandas and
Polars.

## When a bar is known

{times}

## Rules

An error refuses the data. A warning is said and accepted. An error marked ° is a matter of judgement: once judged,
`accept=("likely-split",)` and its like accept it, and the record of the prices says so.

{rules}

One rule lists at most a thousand rows of one column, and counts the rest.

## Repairs

Only by name, `repair=("sort", "drop_duplicates")`, in the order of this table, and recorded in `Prices.repairs`.

{repairs}

## Data sets

Out of packages that ship them, offline; nothing is copied. Licences are those of the data, as far as they are known.

{data_sets}

## Generated series

`load_prices("generated:gbm(seed=0, bars=5000)")`; the source says that they are generated, with all arguments. What the
best policy can expect per bar is beside each in `surefoot.market.generators` (`gbm_optimum` and so on).

{generators}
"""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a | in a cell is escaped."""
    names = list(head)
    lines = [names, ["---"] * len(names), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def table_of(text: str | None) -> str:
    """The table within a docstring, and what follows it."""
    return (text or "").partition("\n\n")[2].strip()


def page() -> str:
    """The whole page."""
    rules = table(
        ("rule", "severity", "what", "way out"),
        ((f"`{r.name}`", r.severity + "°" * r.acceptable, r.what, r.way_out) for r in RULES.values()),
    )
    single = [d for d in DATA_SETS.values() if not d.name.startswith("ecb-")]
    rates = [d for d in DATA_SETS.values() if d.name.startswith("ecb-")]
    rows = [(f"`{d.name}`", d.origin, d.licence, d.calendar, f"`surefoot[{d.extra}]`") for d in single]
    first = rates[0]
    named = f"`{first.name}` and {len(rates) - 1} more currencies"
    rows.append((named, first.origin, first.licence, first.calendar, f"`surefoot[{first.extra}]`"))
    made = ((f"`{name}`", " ".join((make.__doc__ or "").split())) for name, make in generators.GENERATORS.items())
    return TEXT.format(
        times=table_of(bar_times.__doc__),
        rules=rules,
        repairs=table_of(repairs.__doc__),
        data_sets=table(("name", "source", "licence", "calendar", "needs"), rows),
        generators=table(("name", "what"), made),
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
