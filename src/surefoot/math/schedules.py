"""Coefficients over training, as pure functions of the update index (O03, P07).

A `Schedule` takes `(update, total)`, the index of the update (0, 1, …) and the planned number of updates, and
returns the value for that update. Progress is update/total: the first update uses the start value exactly,
nothing restarts, and from `total` on the end value holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

Schedule = Callable[[int, int], float]


def progress(update: int, total: int) -> float:
    """update/total, at most 1."""
    if total < 1:
        raise ValueError(f"total must be at least 1 update, got {total}")
    if update < 0:
        raise ValueError(f"update must not be negative, got {update}")
    return min(update / total, 1.0)


def constant(value: float) -> Schedule:
    """The same value always."""

    def at(update: int, total: int) -> float:
        progress(update, total)
        return value

    return at


def linear(start: float, end: float) -> Schedule:
    """start + (end − start)·p for progress p."""

    def at(update: int, total: int) -> float:
        return _between(start, end, progress(update, total))

    return at


def cosine(start: float, end: float) -> Schedule:
    """start + (end − start)·(1 − cos πp)/2 for progress p: flat at both ends."""

    def at(update: int, total: int) -> float:
        return _between(start, end, 0.5 * (1.0 - math.cos(math.pi * progress(update, total))))

    return at


def piecewise(points: Sequence[tuple[float, float]]) -> Schedule:
    """Straight lines through (fraction of training, value); constant before the first and after the last.

    Fractions lie in [0, 1] and do not decrease. Two points with the same fraction are a
    jump: the later one holds there.
    """
    knots = tuple((float(fraction), float(value)) for fraction, value in points)
    if not knots:
        raise ValueError("piecewise needs at least one (fraction, value) point")
    if any(not 0.0 <= fraction <= 1.0 for fraction, _ in knots):
        raise ValueError(f"piecewise fractions must lie in [0, 1], got {[fraction for fraction, _ in knots]}")
    if any(right[0] < left[0] for left, right in pairwise(knots)):
        raise ValueError(f"piecewise fractions must not decrease, got {[fraction for fraction, _ in knots]}")

    def at(update: int, total: int) -> float:
        p = progress(update, total)
        if p < knots[0][0]:
            return knots[0][1]
        for (left, left_value), (right, right_value) in pairwise(knots):
            if left <= p < right:
                return _between(left_value, right_value, (p - left) / (right - left))
        return knots[-1][1]

    return at


def warmup(inner: Schedule, start: float, fraction: float) -> Schedule:
    """A straight ramp from `start` to `inner` over the first `fraction` of training, then `inner`.

    `inner` sees the same update index throughout: its progress does not begin anew after the ramp.
    """
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"warmup fraction must lie in [0, 1], got {fraction}")

    def at(update: int, total: int) -> float:
        length = math.ceil(fraction * total)
        if update >= length:
            return inner(update, total)
        progress(update, total)
        return _between(start, inner(length, total), update / length)

    return at


def _between(start: float, end: float, weight: float) -> float:
    """The exact ends at weights 0 and 1, the straight line in between."""
    return end if weight >= 1.0 else start + (end - start) * weight
