"""Normalization of a plain list of numbers in double precision."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def normalize(advantages: Sequence[float], valid: Sequence[bool]) -> list[float]:
    kept = [a for a, is_valid in zip(advantages, valid, strict=True) if is_valid]
    if len(kept) < 2 or statistics.stdev(kept) == 0.0:
        return [0.0] * len(advantages)
    mean, std = statistics.fmean(kept), statistics.stdev(kept)
    return [(a - mean) / std if is_valid else 0.0 for a, is_valid in zip(advantages, valid, strict=True)]
