"""Tail functionals by filling up the share α from below, and by integrating a quantile function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

_NORMAL = NormalDist()


def cvar_of_masses(masses: Sequence[float], values: Sequence[float], alpha: float) -> float:
    """Take the worst outcomes until their probability is α, and average."""
    taken, total = 0.0, 0.0
    for value, mass in sorted(zip(values, masses, strict=True)):
        part = min(mass, alpha - taken)
        total += part * value
        taken += part
        if taken >= alpha:
            break
    return total / taken


def tail_quantile_function(quantiles: Sequence[float]) -> Callable[[float], float]:
    """Q(z) of the tail rule for at least seven quantiles, by its definition."""
    q = sorted(quantiles)
    n = len(q)
    z = [_NORMAL.inv_cdf((i + 0.5) / n) for i in range(n)]
    outer = (q[3] - q[0]) / (z[3] - z[0])
    inner = (q[6] - q[3]) / (z[6] - z[3])
    g = math.log(outer / inner) / (0.5 * (z[0] + z[3]) - 0.5 * (z[3] + z[6]))
    g = min(max(g, -1.0), 3.0)

    def line(x: float) -> float:
        return x if abs(g) < 1e-9 else math.expm1(g * x) / g

    def value(score: float) -> float:
        if score < z[1]:
            return q[0] + (q[1] - q[0]) * line(score - z[0]) / line(z[1] - z[0])
        for i in range(1, n - 1):
            if score <= z[i + 1]:
                return q[i] + (q[i + 1] - q[i]) * (score - z[i]) / (z[i + 1] - z[i])
        return q[-1]

    return value


def lower_mean(quantile_of_score: Callable[[float], float], alpha: float, n: int = 20_000) -> float:
    """(1/α)·∫ Q(z)·φ(z) dz below Φ⁻¹(α), by the midpoint rule over twelve normal scores."""
    end = _NORMAL.inv_cdf(alpha)
    width = 12.0 / n
    scores = [end - 12.0 + (i + 0.5) * width for i in range(n)]
    return math.fsum(quantile_of_score(z) * _NORMAL.pdf(z) * width for z in scores) / alpha
