"""`load_prices`: from a file, a data frame or a name to checked `Prices`; `check` does the same and tells all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import ConfigError, DataError, SurefootWarning, describe_problem
from surefoot.market import generators, repairs, sources
from surefoot.market.bar_times import Spacing, bar_times, spacing_of
from surefoot.market.calendars import Calendar, calendar_between, check_bars, check_days, is_known, timezone_of
from surefoot.market.cells import read_cells
from surefoot.market.checks import (
    check_cells,
    check_future,
    check_jumps,
    check_order,
    check_stale,
    check_values,
    invalid_rows,
)
from surefoot.market.columns import Columns, Roles, choose_instrument, find_roles, nearest
from surefoot.market.prices import Prices, shown
from surefoot.market.reading import Table, is_frame, read_file, read_frame
from surefoot.market.repairs import Bars
from surefoot.market.rules import RULES, Findings, Problem, Rows
from surefoot.market.stamps import DATES, Stamps, looks_like_12_hours, read_stamps, to_utc, zone_of

EXTRA = "extra:"
REGULAR_SHARE = 0.5


@dataclass(frozen=True)
class Options:
    """What the user says about data, because the data do not."""

    stamp: str | None = None
    calendar: str | None = None
    timezone: str | None = None
    instrument: str | None = None
    repair: Sequence[str] = ()
    accept: Sequence[str] = ()
    columns: Columns = None
    extra: Sequence[str] = ()
    dates: str | None = None
    decimal: str = "."
    now: np.datetime64 | str | None = None

    def __post_init__(self) -> None:
        choices: tuple[tuple[str, str | None, tuple[str | None, ...]], ...] = (
            ("stamp", self.stamp, (None, "open", "close")),
            ("dates", self.dates, (None, *DATES)),
            ("decimal", self.decimal, (".", ",")),
        )
        for name, value, known in choices:
            if value not in known:
                raise ConfigError(f"{name}={value!r} is not known; it is one of {', '.join(map(repr, known))}")
        for rule in self.accept:
            if rule not in RULES or not RULES[rule].acceptable:
                can = ", ".join(name for name, other in RULES.items() if other.acceptable)
                raise ConfigError(f"accept={rule!r} cannot be accepted; what can: {can}")
        repairs.check_policies(self.repair)
        if self.timezone is not None:
            zone_of(self.timezone)


@dataclass(frozen=True)
class Report:
    """What `check` found."""

    source: str
    problems: list[Problem]
    """Errors and warnings in the order of rows of each rule; `rules.RULES` has the severity."""
    bars: int
    start: str | None
    end: str | None
    prices: Prices | None
    """None if an error refuses the data."""

    @property
    def errors(self) -> list[Problem]:
        """Those that refuse the data."""
        return [problem for problem in self.problems if RULES[problem.rule].severity == "error"]


def load_prices(
    source: Any,
    *,
    stamp: str | None = None,
    calendar: str | None = None,
    timezone: str | None = None,
    instrument: str | None = None,
    repair: Sequence[str] = (),
    accept: Sequence[str] = (),
    columns: Columns = None,
    extra: Sequence[str] = (),
    dates: str | None = None,
    decimal: str = ".",
    now: np.datetime64 | str | None = None,
) -> Prices:
    """Checked bars of one instrument.

    Args:
        source: Path of a CSV (or .csv.gz) or Parquet file; a pandas or Polars data frame; the name of a data set
            (``surefoot market data`` lists them); ``generated:gbm(seed=0, bars=5000)`` and its like.
        stamp: Whether stamps are of the ``open`` or ``close`` of bars; needed for bars within the day.
        calendar: ``fx``, ``crypto``, ``none`` or an exchange of `exchange_calendars` such as ``XNYS``.
        timezone: Of stamps without offset (else UTC), and of features of the time of day.
        instrument: Which one, if the file has several.
        repair: Names of policies (`repairs.POLICIES`), applied and recorded.
        accept: Names of rules that are a matter of judgement and were judged.
        columns: The column of a role where names do not tell, None to leave a role out: ``{"close": "PX_LAST"}``;
            or the names of all columns for a CSV without header.
        extra: Further columns of numbers, known at the close of their bar.
        dates: Order of day and month (``dmy``, ``mdy``) or unit of numbers (``s``, ``ms``, ``us``, ``ns``).
        decimal: ``,`` for numbers with a decimal comma.
        now: No bar may be later; the wall clock if not stated.

    Raises:
        DataError: With every problem, its row, column and rule.
    """
    options = Options(
        stamp, calendar, timezone, instrument, tuple(repair), tuple(accept), columns, tuple(extra), dates, decimal, now
    )
    report = check(source, options)
    if report.prices is None:
        raise DataError(report.source, report.errors)
    if report.problems and not sources.is_data_set(source):  # what embedded data have is known and documented
        told = "".join(f"\n  {describe_problem(problem)}" for problem in report.problems[:5])
        more = f"\n  and {len(report.problems) - 5} more" if len(report.problems) > 5 else ""
        warnings.warn(f"{report.source}: {len(report.problems)} warning(s){told}{more}", SurefootWarning, stacklevel=2)
    return report.prices


def check(source: Any, options: Options | None = None) -> Report:
    """Everything that is wrong or suspicious, and the prices if nothing refuses them."""
    options = options or Options()
    if isinstance(source, str) and generators.is_generated(source):
        return _report(source, Findings(), generators.from_text(source))
    findings = Findings()
    if sources.is_data_set(source):
        data_set = sources.find(source)
        name = f"data set {source}"
        options = _with_defaults(options, data_set)
        table = read_file(data_set.path(), findings) if data_set.table is None else data_set.table(findings)
    elif is_frame(source):
        name = f"{type(source).__module__.partition('.')[0]} {type(source).__name__}"
        table = read_frame(source, findings)
    else:
        path = _path_of(source)
        name = str(path)
        named = None if options.columns is None or isinstance(options.columns, dict) else tuple(options.columns)
        table = read_file(path, findings, named)
    prices, seen = (None, None) if table is None else _judge(table, options, name, findings)
    return _report(name, findings, prices, seen)


def _path_of(source: Any) -> Path:
    if not isinstance(source, str | Path):
        raise ConfigError(f"prices come from a path, a data frame or a name, not from {type(source).__name__}")
    path = Path(source)
    if not path.exists():
        hint = nearest(str(source), sources.names())
        raise DataError(
            str(source), [Problem(None, None, "no-file", f"there is no such file and no such data set{hint}")]
        )
    return path


def _with_defaults(options: Options, data_set: sources.DataSet) -> Options:
    """What is known of a data set, where the user does not say otherwise."""
    return replace(
        options,
        stamp=options.stamp or data_set.stamp,
        calendar=options.calendar or data_set.calendar,
        timezone=options.timezone or data_set.timezone,
        instrument=options.instrument or data_set.instrument,
        columns=options.columns or data_set.columns,
        repair=tuple(dict.fromkeys((*data_set.repair, *options.repair))),
        dates=options.dates or data_set.dates,
    )


def _report(source: str, findings: Findings, prices: Prices | None, bars: Bars | None = None) -> Report:
    times = np.zeros(0, "M8[ns]") if bars is None else bars.times[~np.isnat(bars.times)]
    if prices is not None:
        times = np.array([prices.opens_at[0], prices.closes_at[-1]])
    count = len(prices) if prices is not None else 0 if bars is None else len(bars)
    start, end = (_iso(times.min()), _iso(times.max())) if len(times) else (None, None)
    return Report(source, findings.problems, count, start, end, prices)


def _judge(table: Table, options: Options, source: str, findings: Findings) -> tuple[Prices | None, Bars | None]:
    """All checks; the prices if they pass, and the bars as far as they were read."""
    roles = find_roles(table, findings, options.columns, options.instrument, options.extra)
    chosen = None if roles is None else choose_instrument(table, roles, findings, options.instrument)
    if options.calendar is not None:
        is_known(options.calendar, findings)
    if roles is None or chosen is None or findings.errors:
        return None, None
    instrument, mine = chosen
    bars, stamps = _read(table, roles, options)
    _check_stamps(stamps, bars, mine, findings)
    if mine is not None:
        bars = bars.kept(mine)
    bars, done = repairs.apply(bars, repairs.check_policies(options.repair))
    name = stamps.name
    for rule, at in bars.stamp_faults.items():
        findings.add_rows(rule, bars.rows[at], name, _quoting(stamps, table.rows, bars.rows[at]))
    check_cells(bars, findings)
    check_values(bars, findings)
    check_order(bars.times, bars.rows, name, findings)
    check_future(bars.times, bars.rows, name, _now(options.now), findings)
    whole = _accepts(findings, options)
    # What is left is found even beside other problems, in the rows that are sound.
    timed = bars if whole else _timed(bars)
    if len(timed) < 2:
        findings.add("too-short", f"{len(timed)} bar(s) with a stamp of their own are left")
        return None, bars
    _check_series(timed if whole else timed.kept(_sound(timed)), findings)
    built = _build(timed, stamps, options, findings)
    if not _accepts(findings, options):
        return None, bars
    accepted = tuple(f"accepted {rule}" for rule in options.accept if any(p.rule == rule for p in findings.problems))
    findings.problems = [problem for problem in findings.problems if problem.rule not in options.accept]
    named = instrument or Path(source).stem
    return replace(
        built, instrument=named, source=source, fingerprint=table.fingerprint, repairs=(*done, *accepted)
    ), bars


def _timed(bars: Bars) -> Bars:
    """The rows that have a stamp of their own, in order of time."""
    at = np.flatnonzero(~np.isnat(bars.times))
    return bars.kept(at[np.unique(bars.times[at], return_index=True)[1]])


def _sound(bars: Bars) -> NDArray[np.bool_]:
    values = {role: cells.values for role, cells in bars.cells.items()}
    mask = ~invalid_rows(values)
    for column in values.values():
        mask &= np.isfinite(column)
    return mask


def _check_series(bars: Bars, findings: Findings) -> None:
    close = bars.cells["close"]
    opens = bars.cells["open"].values if "open" in bars.cells else None
    check_jumps(close.values, opens, bars.rows, close.name, findings)
    check_stale(close.values, bars.rows, close.name, findings)


def _accepts(findings: Findings, options: Options) -> bool:
    return all(problem.rule in options.accept for problem in findings.errors)


def _read(table: Table, roles: Roles, options: Options) -> tuple[Bars, Stamps]:
    cells = {
        role: read_cells(roles.names[role], table.columns[roles.place[role]], options.decimal) for role in roles.values
    }
    for name in options.extra:
        cells[EXTRA + name] = read_cells(name, table.columns[table.names.index(name)], options.decimal)
    clock = None if roles.clock is None else table.columns[roles.clock]
    place = roles.place["time"] if clock is None else table.names.index(_date_column(table, roles))
    stamps = read_stamps(table.names[place], table.columns[place], clock, options.dates)
    times = stamps.times if stamps.dates_only else to_utc(stamps, zone_of(options.timezone or "UTC"))
    return Bars(table.rows, times, cells, stamps.faults), stamps


def _date_column(table: Table, roles: Roles) -> str:
    """The column of dates beside the one of times of day."""
    return next(
        n for i, n in enumerate(table.names) if i != roles.clock and n.strip("<> ").lower() in ("date", "dtyyyymmdd")
    )


def _check_stamps(stamps: Stamps, bars: Bars, mine: Any, findings: Findings) -> None:
    for rule, text in stamps.general:
        findings.add(rule, text, column=stamps.name)
    if not (stamps.aware or stamps.dates_only or stamps.marked):
        local = stamps.times if mine is None else stamps.times[mine]
        rows = bars.rows if mine is None else bars.rows[mine]
        at = looks_like_12_hours(local)
        if at is not None:
            text = f"no hour is 0 or above 12; see {shown(local[at])}"
            findings.add("am-pm", text, int(rows[at]), stamps.name)


def _quoting(stamps: Stamps, all_rows: Rows, rows: Rows) -> Callable[[int], str]:
    """What to say of the stamps of these rows."""
    return lambda i: f"the stamp is {stamps.quote(int(np.searchsorted(all_rows, rows[i])))}"


def _iso(time: np.datetime64) -> str:
    return f"{np.datetime_as_string(time, unit='s')}Z"


def _now(now: np.datetime64 | str | None) -> np.datetime64:
    """The wall clock is looked at here only, when data are read; nothing that simulates does."""
    stated: np.datetime64 = np.datetime64("now" if now is None else now).astype("M8[ns]")
    return stated


def _build(bars: Bars, stamps: Stamps, options: Options, findings: Findings) -> Prices:
    """Prices with the times of each bar, as far as they can be known."""
    calendar_name = options.calendar or "none"
    zone = options.timezone or (timezone_of(calendar_name) if options.calendar else "UTC")
    spacing = spacing_of(bars.times, zone_of(zone))
    has_ohlc = "open" in bars.cells
    if spacing.wants_stamp(has_ohlc) and options.stamp is None:
        text = f"bars are {_words(spacing.interval)} apart and have open, high and low"
        findings.add("stamp-unknown", text, column=stamps.name)
    if spacing.share < REGULAR_SHARE and len(bars) > 3:
        text = f"the commonest distance of bars, {_words(spacing.interval)}, is that of {spacing.share:.0%} only"
        findings.add("irregular", text, column=stamps.name)
    calendar = None
    if calendar_name != "none":
        calendar = calendar_between(calendar_name, bars.times[0], bars.times[-1])
    opens_at, closes_at = bar_times(bars.times, spacing, zone_of(zone), calendar, options.stamp, has_ohlc)
    if calendar is not None:
        _check_calendar(calendar, spacing, opens_at, closes_at, bars, stamps.name, findings)
    values: dict[str, Any] = {role: cells.values for role, cells in bars.cells.items() if not role.startswith(EXTRA)}
    extra = {role.removeprefix(EXTRA): c.values for role, c in bars.cells.items() if role.startswith(EXTRA)}
    return Prices("", opens_at, closes_at, **values, calendar=calendar_name, timezone=zone, extra=extra)


def _check_calendar(
    calendar: Calendar, spacing: Spacing, opens_at: Any, closes_at: Any, bars: Bars, name: str, findings: Findings
) -> None:
    if spacing.is_daily and spacing.days is not None:
        check_days(calendar, spacing.days, bars.rows, name, findings)
    elif spacing.days is None and spacing.interval < np.timedelta64(20, "h"):
        check_bars(calendar, opens_at, closes_at, spacing.interval, bars.rows, name, findings)


def _words(interval: np.timedelta64) -> str:
    """A distance in time as people say it."""
    seconds = int(interval.astype("m8[s]").astype(np.int64))
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
