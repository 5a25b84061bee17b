"""What the best trader of a generated series can expect: per bar, without costs unless said, by numerical integration.

For log growth the best position is myopic: it maximizes E[log(1 + f·R)] of the next return R given what is known,
whatever comes later (Merton 1969; Algoet and Cover 1988). So growth is known wherever the distribution of the next
return is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_NODES, _WEIGHTS = _NODES[_WEIGHTS > 1e-12], _WEIGHTS[_WEIGHTS > 1e-12]
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_ERFC = np.frompyfunc(math.erfc, 1, 1)
RUIN = -1e9
"""Log growth of a position that can lose everything."""


@dataclass(frozen=True)
class Optimum:
    """Expected log growth of equity per bar."""

    growth: float
    kind: Literal["exact", "upper bound", "lower bound"]
    position: str
    """The policy that has it, in words."""


@dataclass(frozen=True)
class LogReturns:
    """A mixture of normal distributions of the log return of one bar: weights, means and standard deviations."""

    weights: Sequence[float]
    means: Sequence[float]
    stds: Sequence[float]

    def points(self) -> tuple[Vector, Vector]:
        """Simple returns and their probabilities for Gauss-Hermite sums."""
        returns = [np.expm1(mean + std * _NODES) for mean, std in zip(self.means, self.stds, strict=True)]
        return np.concatenate(returns), np.concatenate([weight * _WEIGHTS for weight in self.weights])

    def growth(self, fraction: float) -> float:
        """E[log(1 + f·R)] for a position of the fraction f of equity, rebalanced at each bar.

        Beyond about seven standard deviations (probability 1e-12) returns are left out: there a short position loses
        more than all, and the exact mean of the logarithm would be −∞ for every one of them.
        """
        returns, chances = self.points()
        wealth = 1 + fraction * returns
        if wealth.min() <= 0:
            return RUIN
        return float(chances @ np.log(wealth))

    def best_fraction(self, low: float = -1.0, high: float = 1.0) -> float:
        """The position with the greatest growth; growth is concave in f, so its slope decides by bisection."""
        returns, chances = self.points()

        def slope(f: float) -> float:
            wealth = 1 + f * returns
            if wealth.min() <= 0:
                return float(-np.sign(f))
            return float(chances @ (returns / wealth))

        if slope(low) <= 0:
            return low
        if slope(high) >= 0:
            return high
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
        return (low + high) / 2

    def cvar(self, fraction: float, alpha: float, samples: int = 200_001) -> float:
        """Mean of the worst α of log(1 + f·R): the distribution function of the mixture, inverted on a fine grid."""
        levels = (np.arange(samples) + 0.5) / samples * alpha
        quantiles = self._quantiles(levels if fraction >= 0 else 1 - levels)
        return float(np.mean(np.log1p(np.maximum(fraction * np.expm1(quantiles), -1 + 1e-300))))

    def _quantiles(self, levels: Vector) -> Vector:
        """Log returns at these probabilities."""
        spans = [(m - 12 * s, m + 12 * s) for m, s in zip(self.means, self.stds, strict=True)]
        grid = np.unique(np.concatenate([np.linspace(a, b, 40_001) for a, b in spans]))
        below = np.zeros_like(grid)
        for weight, mean, std in zip(self.weights, self.means, self.stds, strict=True):
            below += weight * _normal_cdf((grid - mean) / std)
        found: Vector = np.interp(levels, below, grid)
        return found


def constant(returns: LogReturns, low: float = -1.0, high: float = 1.0) -> Optimum:
    """Of independent returns: one position for ever."""
    fraction = returns.best_fraction(low, high)
    return Optimum(returns.growth(fraction), "exact", f"{fraction:.4g} of equity, always")


def over_states(
    chances: Sequence[float] | Vector,
    mixtures: Sequence[LogReturns],
    kind: Literal["exact", "upper bound"],
    words: str,
    low: float = -1.0,
    high: float = 1.0,
) -> Optimum:
    """The mean over states of the best growth in each; exact if the state is seen, else nobody does better."""
    growth = sum(
        chance * mixture.growth(mixture.best_fraction(low, high))
        for chance, mixture in zip(chances, mixtures, strict=True)
    )
    return Optimum(float(growth), kind, words)


def normal_nodes() -> tuple[Vector, Vector]:
    """Nodes and weights for means over a standard normal variable."""
    return _NODES.copy(), _WEIGHTS.copy()


def _normal_cdf(x: Vector) -> Vector:
    found: Vector = 0.5 * _ERFC(-x / np.sqrt(2)).astype(np.float64)
    return found
