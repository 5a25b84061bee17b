"""Exact distributions of returns with finitely many values, for worlds whose answers are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class ReturnDistribution:
    """Probabilities of finitely many returns."""

    def __init__(self, probabilities: Mapping[float, float]) -> None:
        total = sum(probabilities.values())
        if abs(total - 1.0) > 1e-9 or min(probabilities.values()) < 0.0:
            raise ValueError(f"probabilities must be non-negative and add up to 1, not to {total}")
        self.probabilities = dict(sorted(probabilities.items()))
        """By return, ascending."""

    @property
    def mean(self) -> float:
        """Expected return."""
        return sum(value * p for value, p in self.probabilities.items())

    def shortfall(self, threshold: float) -> float:
        """E[min(R − threshold, 0)]."""
        return sum(min(value - threshold, 0.0) * p for value, p in self.probabilities.items())

    def cvar(self, alpha: float) -> float:
        """Mean of the worst share α: max over ν of ν + E[min(R − ν, 0)]/α, which some value of R attains."""
        return max(value + self.shortfall(value) / alpha for value in self.probabilities)


def mixture(parts: Iterable[tuple[ReturnDistribution, float]]) -> ReturnDistribution:
    """What comes out if each distribution is drawn with its probability."""
    found: dict[float, float] = {}
    for distribution, weight in parts:
        for value, p in distribution.probabilities.items():
            found[value] = found.get(value, 0.0) + weight * p
    return ReturnDistribution(found)
