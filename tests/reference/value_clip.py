"""Clipping of predictions written with Python lists, one row at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence


def clip(value: float, centre: float, radius: float) -> float:
    return min(max(value, centre - radius), centre + radius)


def clip_law(
    values: Sequence[float],
    masses: Sequence[float],
    old_moments: tuple[float, float],
    clip_range: float,
    spread_factor: float | None,
) -> list[float]:
    """Shift the mean to within `clip_range` of the old one; cap the spread, if a factor is given."""
    old_mean, old_std = old_moments
    mean, std = moments(values, masses)
    new_mean = clip(mean, old_mean, clip_range)
    scale = 1.0
    if spread_factor is not None and std > spread_factor * old_std:
        scale = spread_factor * old_std / std
    return [new_mean + (value - mean) * scale for value in values]


def moments(values: Sequence[float], masses: Sequence[float]) -> tuple[float, float]:
    total = math.fsum(masses)
    mean = math.fsum(v * m for v, m in zip(values, masses, strict=True)) / total
    variance = math.fsum((v - mean) ** 2 * m for v, m in zip(values, masses, strict=True)) / total
    return mean, math.sqrt(variance)


def quantile_of(masses: Sequence[float], values: Sequence[float], level: float) -> float:
    reached = 0.0
    for mass, value in zip(masses, values, strict=True):
        reached += mass
        if reached >= level:
            return value
    return values[-1]
