"""Mean and variance in exact rational arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def mean_and_variance(values: Sequence[float]) -> tuple[float, float]:
    """Population moments; (0, 0) of nothing."""
    if not values:
        return 0.0, 0.0
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    variance = sum(((x - mean) ** 2 for x in exact), Fraction(0)) / len(exact)
    return float(mean), float(variance)
