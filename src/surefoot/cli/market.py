"""``surefoot market``: check a price file, list the data sets."""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.market.load import Report
    from surefoot.market.rules import Problem

LISTED = 50
"""How many problems are shown to a person; ``--json`` has all."""


def add_market(commands: Any) -> None:
    """The options of ``surefoot market …``."""
    market = commands.add_parser("market", help="check price files, list data sets", description="Data of markets.")
    inner = market.add_subparsers(dest="market_command", metavar="COMMAND", required=True)
    check = inner.add_parser("check", help="name every problem of a price file", description=_CHECK)
    check.add_argument("file", metavar="FILE", help="CSV or Parquet file, or the name of a data set")
    check.add_argument("--stamp", choices=["open", "close"], help="what stamps of bars within the day mean")
    check.add_argument("--calendar", metavar="NAME", help="fx, crypto, none or an exchange such as XNYS")
    check.add_argument("--timezone", metavar="ZONE", help="of stamps without offset (default: UTC)")
    check.add_argument("--instrument", metavar="NAME", help="which one, if the file has several")
    check.add_argument("--dates", metavar="KIND", help="dmy, mdy, ymd, or the unit s, ms, us, ns of numbers")
    check.add_argument("--decimal", choices=[".", ","], default=".", help="(default: .)")
    check.add_argument("--column", action="append", default=[], metavar="ROLE=NAME", help="may be given several times")
    check.add_argument("--repair", action="append", default=[], metavar="POLICY", help="may be given several times")
    check.add_argument("--accept", action="append", default=[], metavar="RULE", help="may be given several times")
    check.add_argument("--now", metavar="TIME", help="no bar may be later (default: the wall clock)")
    check.add_argument("--json", action="store_true", help="print JSON")
    data = inner.add_parser("data", help="list the embedded data sets", description="List the embedded data sets.")
    data.add_argument("--json", action="store_true", help="print JSON")
    for command in inner.choices.values():
        command.set_defaults(parser=command)


_CHECK = "Name every problem of a price file. Exit code 0: no error, 1: errors, 2: the file or an option is not there."


def market(arguments: argparse.Namespace) -> None:
    """Run the command that was asked for."""
    if arguments.market_command == "check":
        _check(arguments)
    else:
        _data(arguments)


def _check(arguments: argparse.Namespace) -> None:
    from surefoot.market.load import Options, check

    options = Options(
        stamp=arguments.stamp,
        calendar=arguments.calendar,
        timezone=arguments.timezone,
        instrument=arguments.instrument,
        repair=tuple(arguments.repair),
        accept=tuple(arguments.accept),
        columns=_columns(arguments),
        dates=arguments.dates,
        decimal=arguments.decimal,
        now=arguments.now,
    )
    report = check(arguments.file, options)
    if arguments.json:
        print(json.dumps(_as_json(report), ensure_ascii=False))
    else:
        _show(report)
    if report.errors:
        raise SystemExit(1)


def _columns(arguments: argparse.Namespace) -> dict[str, str | None] | None:
    found: dict[str, str | None] = {}
    for word in arguments.column:
        role, equals, name = word.partition("=")
        if not equals:
            arguments.parser.error(f"argument --column: {word!r} is not ROLE=NAME")
        found[role] = name or None
    return found or None


IN_OPTIONS = (
    (r', or name the columns: columns=\("time", …\)', ""),  # for which there is no option
    (r'columns=\{"(\w+)": "…"\}', r"--column \1=…"),
    (r'columns=\{"(\w+)": None, …\}', r"--column \1= …"),
    (r'\b(repair|accept)=\("([\w-]+)",\)', r"--\1 \2"),
    (r'\belse \("(\w+)",\)', r"else --repair \1"),
    (r'\b(instrument|decimal|dates|stamp)="([^"]+)"', r"--\1 \2"),
    (r"\b(timezone|calendar|now)=", r"--\1"),
)
"""What rules say to those who call `load_prices`, and how it is said here."""


def in_options(way_out: str) -> str:
    """A rule's way out in the words of the command line."""
    for pattern, words in IN_OPTIONS:
        way_out = re.sub(pattern, words, way_out)
    return way_out


def _text(problem: Problem) -> str:
    """The problem, with its way out as options."""
    from surefoot.market.rules import RULES

    way_out = RULES[problem.rule].way_out
    return problem.text.removesuffix(way_out) + in_options(way_out)


def _as_json(report: Report) -> dict[str, Any]:
    from surefoot.market.rules import RULES

    problems = [
        problem._asdict() | {"text": _text(problem), "severity": RULES[problem.rule].severity}
        for problem in report.problems
    ]
    prices = report.prices
    return {
        "source": report.source,
        "problems": problems,
        "bars": report.bars,
        "start": report.start,
        "end": report.end,
        "fingerprint": None if prices is None else prices.fingerprint,
        "repairs": [] if prices is None else list(prices.repairs),
    }


def _show(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from surefoot.market.rules import RULES

    console = Console(highlight=False)
    if report.problems:
        table = Table("row", "column", "rule", "problem and way out")
        for problem in report.problems[:LISTED]:
            row, column, rule, _ = problem
            style = "red" if RULES[rule].severity == "error" else "yellow"
            table.add_row("" if row is None else str(row), Text(column or ""), Text(rule, style), Text(_text(problem)))
        console.print(table)
    if len(report.problems) > LISTED:
        console.print(f"and {len(report.problems) - LISTED} more: --json has all")
    errors = len(report.errors)
    verdict = f"{errors} error(s), {len(report.problems) - errors} warning(s)" if report.problems else "no problem"
    span = f", {report.start} to {report.end}" if report.start else ""
    console.print(Text(f"{report.source}: {report.bars:,} bars{span}: {verdict}"))
    for repair in () if report.prices is None else report.prices.repairs:
        console.print(Text(f"repaired: {repair}"))


def _data(arguments: argparse.Namespace) -> None:
    rows = _data_sets()
    if arguments.json:
        print(json.dumps(rows, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("name", "span", "bars", "source")
    licences: dict[str, list[str]] = {}
    for row in rows:
        span = f"{row['start'][:10]} to {row['end'][:10]}" if row["start"] else row["install"]
        table.add_row(*map(Text, (row["name"], span, f"{row['bars'] or ''}", row["source"])))
        licences.setdefault(row["licence"], []).append(row["name"])
    console = Console(highlight=False)
    console.print(table)
    console.print("licence of the data, as far as it is known:")
    for licence, names in licences.items():
        of = f"{names[0]} to {names[-1]}" if len(names) > 2 else ", ".join(names)
        console.print(Text(f"  {of}: {licence}"))


def _data_sets() -> list[dict[str, Any]]:
    from surefoot.market.load import check
    from surefoot.market.sources import DATA_SETS

    rows = []
    for name, data_set in DATA_SETS.items():
        report = check(name) if data_set.installed else None
        rows.append(
            {
                "name": name,
                "start": None if report is None else report.start,
                "end": None if report is None else report.end,
                "bars": None if report is None else report.bars,
                "source": data_set.origin,
                "licence": data_set.licence,
                "calendar": data_set.calendar,
                "stamp": data_set.stamp,
                "install": f'pip install "surefoot[{data_set.extra}]"',
            }
        )
    return rows
