"""What can be wrong with a price file: every rule with its severity and the way out, and a collector of findings.

A rule of severity ``error`` refuses the data; one of severity ``warning`` is said and accepted. An error that is a
matter of judgement (``acceptable``) can be accepted by name, ``accept=("likely-split",)``, which is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

LISTED_ROWS = 1000
"""How many rows one rule lists for one column; what is beyond is counted, as a file must not decide about memory."""


class Problem(NamedTuple):
    """One finding. ``row`` is the line of a CSV file as an editor numbers it, or the position from 0 in a table."""

    row: int | None
    column: str | None
    rule: str
    text: str


@dataclass(frozen=True)
class Rule:
    """A way in which data can be wrong, and what to do about it."""

    name: str
    severity: Literal["error", "warning"]
    what: str
    way_out: str
    acceptable: bool = False


def _error(name: str, what: str, way_out: str, acceptable: bool = False) -> Rule:
    return Rule(name, "error", what, way_out, acceptable)


def _warning(name: str, what: str, way_out: str) -> Rule:
    return Rule(name, "warning", what, way_out)


_ALL = (
    # The file as a whole.
    _error("empty", "nothing in the file, or no row below the header", "export the data again"),
    _error("too-large", "more bytes or rows than are read at once", "cut the file, or write it as Parquet"),
    _error("unreadable", "not a CSV or Parquet file, or a truncated one", "copy or export the file again"),
    _error("encoding", "text that is not UTF-8", "save the file as UTF-8"),
    _error("wrong-delimiter", "the columns are not told apart", "separate columns by comma, semicolon, tab or |"),
    _error("preamble", "lines above the header", "remove the lines above the header"),
    _error("no-header", "the first line holds data", 'add a header line, or name the columns: columns=("time", …)'),
    _error("ragged-row", "a row with more or fewer cells than the header", "repair the line (a decimal comma?)"),
    # Columns.
    _error("duplicate-column", "two columns of one name", "rename or remove one of them"),
    _error("no-time", "no column of stamps", 'name it: columns={"time": "…"}'),
    _error("no-close", "no column of closes", 'name it: columns={"close": "…"}'),
    _error(
        "incomplete-ohlc", "some of open, high, low, not all", 'add the rest, or leave out: columns={"open": None, …}'
    ),
    _error("unknown-column", "a column that was asked for is not there", "use a name of the file's header"),
    _error("several-instruments", "several instruments and none chosen", 'choose one: instrument="…"'),
    _error("unknown-instrument", "the chosen instrument is not in the file", "choose one that is in the file"),
    # Cells.
    _error("missing", "an empty cell or NaN", 'repair=("drop_missing",) or repair=("forward_fill",)'),
    _error("not-a-number", "text where a number belongs", 'correct it, or repair=("drop_invalid",)'),
    _error("infinite", "an infinite number", 'correct it, or repair=("drop_invalid",)'),
    _error("thousands-separator", "digits grouped by a separator", "export numbers without grouping"),
    _error("decimal-comma", "a decimal comma", 'say decimal=","'),
    # Stamps.
    _error("bad-stamp", "a stamp that is no date or time", 'correct it, or repair=("drop_invalid",)'),
    _error("date-order", "day and month cannot be told apart", 'say dates="dmy" or dates="mdy"'),
    _error("epoch-unit", "numbers as stamps whose unit gives absurd years", 'say dates="s", "ms", "us" or "ns"'),
    _error("am-pm", "12-hour stamps without AM or PM", "export 24-hour stamps, or keep the marker", acceptable=True),
    _error("mixed-zones", "some stamps with a time zone, some without", "write all stamps with their offset, or none"),
    _error("dst-gap", "a local time that the clock skipped", "write stamps in UTC, or say another timezone="),
    _error("dst-repeat", "a local time that came twice, and which is not known", "write stamps in UTC or with offset"),
    _error("stamp-unknown", "whether stamps are of the open or close of bars", 'say stamp="open" or stamp="close"'),
    _error("future-bar", "a bar that is later than now", "check year, unit and time zone; remove it, or state now="),
    _error("duplicate-stamp", "one stamp twice", 'repair=("drop_duplicates",) for equal rows, else ("keep_last",)'),
    _error("unsorted", "a stamp before the one above it", 'repair=("sort",)'),
    _error("too-short", "fewer than two bars", "give more data"),
    _warning("irregular", "no spacing that most bars have", "give one series of equal bars"),
    # Values.
    _error("non-positive", "a price of zero or less", 'correct it, or repair=("drop_invalid",)'),
    _error("high-below-low", "the high is below the low", 'correct it, or repair=("drop_invalid",)'),
    _error("outside-range", "open or close outside low to high", 'correct it, or repair=("drop_invalid",)'),
    _error("negative-volume", "a volume below zero", 'correct it, or repair=("drop_invalid",)'),
    _error(
        "likely-split",
        "a jump by a round ratio that stays",
        'use adjusted prices; if the move was real: accept=("likely-split",)',
        acceptable=True,
    ),
    _warning("zero-volume", "no volume", "nothing to do if the market was closed or reports no volume"),
    _warning("spike", "an outlier that reverts at once", "compare with another source"),
    _warning("stale", "the same prices for many bars", "compare with another source"),
    # The calendar.
    _error(
        "unknown-calendar", "a calendar that nobody knows", 'use "fx", "crypto", "none" or an exchange such as "XNYS"'
    ),
    _error(
        "wrong-calendar",
        "a good part of the bars is when the calendar is closed",
        "check calendar= and timezone=",
        True,
    ),
    _warning(
        "gap",
        "bars that the calendar expects are not there",
        "nothing to do if the market was closed, else complete the data",
    ),
    _warning("outside-session", "a bar when the calendar is closed", "check calendar= and timezone="),
)
RULES = {rule.name: rule for rule in _ALL}


def is_error(problem: Problem) -> bool:
    """Whether the problem refuses the data."""
    return RULES[problem.rule].severity == "error"


class Findings:
    """Collects problems in the order in which they are found."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, rule: str, text: str, row: int | None = None, column: str | None = None) -> None:
        """One problem; the rule's way out is added to the text."""
        self.problems.append(Problem(row, column, rule, f"{text}; {RULES[rule].way_out}"))

    def add_rows(self, rule: str, rows: Rows, column: str | None, describe: Callable[[int], str]) -> None:
        """A problem for each of ``rows``; ``describe`` gets the position in ``rows``."""
        for i, row in enumerate(rows[:LISTED_ROWS].tolist()):
            self.add(rule, describe(i), row, column)
        if len(rows) > LISTED_ROWS:
            self.add(rule, f"and {len(rows) - LISTED_ROWS:,} more rows like these", None, column)

    @property
    def errors(self) -> list[Problem]:
        """Those that refuse the data."""
        return [problem for problem in self.problems if is_error(problem)]

    @property
    def warnings(self) -> list[Problem]:
        """Those that are said only."""
        return [problem for problem in self.problems if not is_error(problem)]
