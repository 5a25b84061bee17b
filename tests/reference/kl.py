"""Divergences by many digits or by brute summation and integration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext


def k3(log_ratio: float) -> float:
    with localcontext() as context:
        context.prec = 700
        d = min(Decimal(log_ratio), Decimal(20))
        return float(d.exp() - 1 - d)


def categorical(p: Sequence[float], q: Sequence[float]) -> float:
    with localcontext() as context:
        context.prec = 60
        terms = [Decimal(a) * (Decimal(a) / Decimal(b)).ln() for a, b in zip(p, q, strict=True) if a > 0]
        return float(sum(terms, Decimal(0)))


def by_integration(
    log_density_p: Callable[[float], float],
    log_density_q: Callable[[float], float],
    low: float,
    high: float,
    n: int = 20_000,
) -> float:
    """∫ p·log(p/q) by the midpoint rule."""
    width = (high - low) / n
    total = []
    for i in range(n):
        x = low + (i + 0.5) * width
        log_p = log_density_p(x)
        total.append(math.exp(log_p) * (log_p - log_density_q(x)) * width)
    return math.fsum(total)


def log_normal_density(mean: float, std: float) -> Callable[[float], float]:
    return lambda x: -0.5 * ((x - mean) / std) ** 2 - math.log(std * math.sqrt(2 * math.pi))


def log_beta_density(alpha: float, beta: float) -> Callable[[float], float]:
    norm = math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)
    return lambda x: (alpha - 1) * math.log(x) + (beta - 1) * math.log1p(-x) - norm
