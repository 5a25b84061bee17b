"""How far each CVaR rule is from the truth when the quantiles are exact (R01)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import torch

from surefoot.errors import SurefootWarning
from surefoot.math.quantile import midpoints
from surefoot.math.risk import Rule, cvar_from_quantiles

_NORMAL = NormalDist()
SIZES = (21, 32, 51, 101)
ALPHAS = (0.01, 0.05, 0.1, 0.25)
RULES: tuple[Rule, ...] = ("step", "tail")


class KnownDistribution(NamedTuple):
    """A distribution with its quantile function and its exact lower CVaR."""

    name: str
    quantile: Callable[[float], float]
    cvar: Callable[[float], float]


class ErrorRow(NamedTuple):
    """`relative_error` = (estimate − exact)/|exact|: positive is too optimistic."""

    distribution: str
    n: int
    alpha: float
    rule: Rule
    exact: float
    estimate: float
    relative_error: float


def error_table(sizes: Sequence[int] = SIZES, alphas: Sequence[float] = ALPHAS) -> list[ErrorRow]:
    """One row for each distribution, N, α and rule, from exact midpoint quantiles in float32.

    Normal and log-normal distributions lie within the family the tail rule extrapolates with; Student-t(3) does not.
    """
    rows = []
    with warnings.catch_warnings():
        # The table is meant to show α·N < 1 too.
        warnings.simplefilter("ignore", SurefootWarning)
        for distribution in DISTRIBUTIONS:
            for n in sizes:
                levels = midpoints(n, dtype=torch.float64).tolist()
                q = torch.tensor([distribution.quantile(level) for level in levels], dtype=torch.float32)
                for alpha in alphas:
                    exact = distribution.cvar(alpha)
                    for rule in RULES:
                        estimate = float(cvar_from_quantiles(q, alpha, rule))
                        error = (estimate - exact) / abs(exact)
                        rows.append(ErrorRow(distribution.name, n, alpha, rule, exact, estimate, error))
    return rows


def _normal_cvar(alpha: float) -> float:
    return -_NORMAL.pdf(_NORMAL.inv_cdf(alpha)) / alpha


def _student_cdf(x: float) -> float:
    s = x / math.sqrt(3.0)
    return 0.5 + (s / (1.0 + s * s) + math.atan(s)) / math.pi


def _student_quantile(level: float) -> float:
    low, high = -1e4, 1e4
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _student_cdf(middle) < level else (low, middle)
    return 0.5 * (low + high)


def _student_cvar(alpha: float) -> float:
    """−f(x)·(3 + x²)/(2α) with f the density of t(3) and x its α-quantile."""
    x = _student_quantile(alpha)
    return -3.0 * math.sqrt(3.0) / (math.pi * (3.0 + x * x) * alpha)


def _right_skewed_cvar(alpha: float) -> float:
    return math.exp(0.5) * _NORMAL.cdf(_NORMAL.inv_cdf(alpha) - 1.0) / alpha


def _left_skewed_cvar(alpha: float) -> float:
    return -math.exp(0.5) * _NORMAL.cdf(_NORMAL.inv_cdf(alpha) + 1.0) / alpha


DISTRIBUTIONS = (
    KnownDistribution("normal", _NORMAL.inv_cdf, _normal_cvar),
    KnownDistribution("student-t(3)", _student_quantile, _student_cvar),
    KnownDistribution("lognormal", lambda level: math.exp(_NORMAL.inv_cdf(level)), _right_skewed_cvar),
    KnownDistribution("-lognormal", lambda level: -math.exp(-_NORMAL.inv_cdf(level)), _left_skewed_cvar),
)
