"""The written form of a coefficient: a number, or a schedule such as ``linear(1e-3, 0)``.

A schedule runs over the updates of the whole run. Forms::

    3e-4                                   constant
    linear(1e-3, 0)                        from 1e-3 at the first update to 0 after the last
    cosine(1e-3, 1e-5)                     half a cosine wave between the two
    piecewise(0: 1e-3, 0.5: 1e-4, 1: 0)    straight lines between (fraction of the run: value) points
    warmup(0.1, linear(1e-3, 0))           ramps up from 0 over the first 10 % of the run, then goes on
    decay(0.01, 0.001, 400)                (ent_coef only) from start to floor over so many updates; a plateau of
                                           the return delays it: decay(start, floor, updates, window, tolerance)
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Kind = Literal["constant", "linear", "cosine", "piecewise", "warmup", "decay"]
FORMS = "a number, linear(a, b), cosine(a, b), piecewise(f: a, …), warmup(f, schedule), decay(a, b, updates)"

_CALL = re.compile(r"^([a-z]+)\((.*)\)$", re.DOTALL)


@dataclass(frozen=True)
class ScheduleSpec:
    """A parsed schedule. ``values`` are coefficient values, ``marks`` are fractions or counts of updates."""

    kind: Kind
    values: tuple[float, ...]
    marks: tuple[float, ...] = ()
    inner: ScheduleSpec | None = None

    def all_values(self) -> tuple[float, ...]:
        """Every coefficient value that the schedule names, for bounds checking."""
        return self.values + (self.inner.all_values() if self.inner else ())


def parse_schedule(text: float | str) -> ScheduleSpec:
    """Parse the written form; a ``ValueError`` says what was not understood."""
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a coefficient; use {FORMS}")
    if isinstance(text, int | float):
        return ScheduleSpec("constant", (float(text),))
    text = text.strip()
    call = _CALL.match(text)
    if call is None:
        return ScheduleSpec("constant", (_number(text),))
    name, body = call[1], call[2]
    arguments = _split(body)
    if name in ("linear", "cosine"):
        _expect(len(arguments) == 2, f"{name} takes (start, end), got ({body})")
        return ScheduleSpec("linear" if name == "linear" else "cosine", tuple(map(_number, arguments)))
    if name == "piecewise":
        return _piecewise(arguments)
    if name == "warmup":
        _expect(len(arguments) == 2, f"warmup takes (fraction, schedule), got ({body})")
        fraction = _number(arguments[0])
        _expect(0 < fraction < 1, f"the fraction of warmup must lie in (0, 1), got {fraction}")
        inner = parse_schedule(arguments[1])
        _expect(
            inner.kind != "decay", "decay(…) is for ent_coef by itself; inside warmup use linear, cosine, piecewise"
        )
        return ScheduleSpec("warmup", (), (fraction,), inner)
    if name == "decay":
        return _decay(arguments)
    raise ValueError(f"unknown schedule {name!r}; use {FORMS}")


def _piecewise(arguments: list[str]) -> ScheduleSpec:
    points = [argument.split(":") for argument in arguments]
    _expect(len(points) >= 2 and all(len(p) == 2 for p in points), "piecewise takes at least two fraction: value")
    marks = tuple(_number(p[0]) for p in points)
    increasing = all(a < b for a, b in pairwise(marks))
    _expect(increasing and marks[0] >= 0 and marks[-1] <= 1, "fractions of piecewise must rise within [0, 1]")
    return ScheduleSpec("piecewise", tuple(_number(p[1]) for p in points), marks)


def _decay(arguments: list[str]) -> ScheduleSpec:
    _expect(
        3 <= len(arguments) <= 5,
        f"decay takes (start, floor, updates[, window[, tolerance]]), got ({', '.join(arguments)})",
    )
    start, floor, updates, *delay = map(_number, arguments)
    _expect(0 <= floor <= start, f"decay needs 0 <= floor <= start, got start {start}, floor {floor}")
    _expect(updates >= 1, f"decay needs at least one update, got {updates:g}")
    _expect(updates.is_integer(), f"the updates of decay must be a whole number, got {updates:g}")
    for window in delay[:1]:
        whole = window.is_integer() and window >= 2
        _expect(whole, f"the window of decay must be a whole number of at least 2, got {window:g}")
    for tolerance in delay[1:]:
        _expect(0 <= tolerance < math.inf, f"the tolerance of decay must be finite and not below 0, got {tolerance:g}")
    return ScheduleSpec("decay", (start, floor), (updates, *delay))


def _split(body: str) -> list[str]:
    """Split at commas that are not inside parentheses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(body):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(body[start:i].strip())
            start = i + 1
    return [*parts, body[start:].strip()]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a number nor a schedule; use {FORMS}") from None


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
