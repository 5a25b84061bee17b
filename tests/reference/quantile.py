"""Quantile Huber loss by three nested loops."""

from __future__ import annotations

from collections.abc import Sequence


def huber_loss(quantiles: Sequence[float], targets: Sequence[float], kappa: float) -> float:
    n = len(quantiles)
    total = 0.0
    for i, q in enumerate(quantiles):
        level = (i + 0.5) / n
        for y in targets:
            u = y - q
            if kappa == 0.0:
                size = abs(u)
            elif abs(u) <= kappa:
                size = 0.5 * u * u / kappa
            else:
                size = abs(u) - 0.5 * kappa
            total += abs(level - (1.0 if u < 0 else 0.0)) * size
    return total / (n * len(targets))
