"""What the pages of the benchmarks share: statistics over training seeds with their intervals, and cells of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from kept_runs import Record, Runs

RESAMPLES = 10_000

Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]


def interquartile_mean(scores: Floats) -> Floats:
    """Mean of the middle half along the last axis, [..., S] -> [...].

    Each of S sorted scores covers 1/S of the distribution and weighs with the part of it inside [1/4, 3/4],
    so the statistic is defined for any S, not only for multiples of four.
    """
    edges = np.linspace(0.0, 1.0, scores.shape[-1] + 1)
    inside = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    result: Floats = np.sort(scores, axis=-1) @ (inside / inside.sum())
    return result


def mean(scores: Floats) -> Floats:
    result: Floats = scores.mean(axis=-1)
    return result


def resamples(scores: Floats, generator: np.random.Generator) -> Floats:
    """[S] -> [RESAMPLES, S]: whole training runs drawn with replacement, within one task and system."""
    drawn: Floats = scores[generator.integers(len(scores), size=(RESAMPLES, len(scores)))]
    return drawn


def interval(statistics: Floats) -> tuple[float, float]:
    low, high = np.quantile(statistics, [0.025, 0.975])
    return float(low), float(high)


def estimate(scores: Floats, statistic: Statistic) -> tuple[float, float, float]:
    """Value and bounds of its percentile-bootstrap 95 % interval."""
    low, high = interval(statistic(resamples(scores, np.random.default_rng(0))))
    return float(statistic(scores)), low, high


def difference(ours: Floats, theirs: Floats) -> tuple[float, float, float]:
    """Difference of means, each system resampled within itself (its stratum)."""
    generator = np.random.default_rng(0)
    low, high = interval(mean(resamples(ours, generator)) - mean(resamples(theirs, generator)))
    return float(mean(ours) - mean(theirs)), low, high


def standing(low: float, high: float, than: str = "") -> str:
    """Of a difference by its interval: below only if all of it is."""
    words = f"{'below' if high < 0 else 'above' if low > 0 else 'not below'} {than}".rstrip()
    return f"**{words}**" if high < 0 else words


def scores(group: Sequence[Record]) -> Floats:
    return np.array([record["mean"] for record in group], dtype=np.float64)


def result(group: Sequence[Record], digits: int | None = None) -> str:
    """Mean and interquartile mean over seeds."""
    if not group:
        return "not run yet"
    if len(group) == 1:
        return f"{number(group[0]['mean'], digits)}<br>1 seed"
    found = scores(group)
    average, middle = (spread(*estimate(found, statistic), digits) for statistic in (mean, interquartile_mean))
    return f"{average}<br>IQM {middle}<br>{len(group)} seeds"


def cost(group: Sequence[Record]) -> str:
    if not group:
        return ""
    wall, cpu = (np.mean([record[key] for record in group]) for key in ("wall_seconds", "cpu_seconds"))
    return f"{cpu:.0f} ({wall:.0f})"


def machines(runs: Runs, names: Callable[[str], str]) -> list[str]:
    """The distinct systems and machines behind the tables; ``names`` says what system a contender is."""
    seen: dict[str, None] = {}
    for (_, contender), group in sorted(runs.items()):
        for record in group:
            machine = dict(record["machine"])
            cpu = f"{machine.pop('cores')} cores of {machine.pop('cpu')}"
            versions = ", ".join(f"{key} {value}" for key, value in machine.items())
            seen[f"- {names(contender)} {record['version']}: {cpu}, {versions}"] = None
    return ["## Machine", "", *seen]


def spread(value: float, low: float, high: float, digits: int | None = None, *, signed: bool = False) -> str:
    middle, lower, upper = (number(each, digits, signed=signed) for each in (value, low, high))
    return f"{middle} [{lower}, {upper}]"


def number(value: float, digits: int | None = None, *, signed: bool = False) -> str:
    """With so many decimals; None: one, from a thousand on none."""
    if digits is None:
        digits = 0 if abs(value) >= 1000 else 1
    rounded = round(value, digits) + 0.0  # no minus before a zero
    return f"{rounded:{'+' if signed and rounded else ''}.{digits}f}".replace("-", "−")
