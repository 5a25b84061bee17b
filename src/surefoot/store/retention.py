"""Which checkpoints of a run stay."""

from __future__ import annotations

import math
from collections.abc import Mapping


def kept_steps(
    metrics: Mapping[int, float | None], *, keep_last: int, keep_every: int | None, keep_best: bool
) -> set[int]:
    """Steps to keep, of those in `metrics` (step -> metric, higher is better, None if not step_metrics).

    Kept are the `keep_last` newest, the best, and the first one in each interval of `keep_every` steps.
    """
    steps = sorted(metrics)
    kept = set(steps[-keep_last:])
    if keep_best:
        kept |= set(best_first(metrics)[:1])
    if keep_every is not None:
        first_of_interval: dict[int, int] = {}
        for step in steps:
            first_of_interval.setdefault(step // keep_every, step)
        kept |= set(first_of_interval.values())
    return kept


def best_first(metrics: Mapping[int, float | None]) -> list[int]:
    """StepMetrics steps from the best to the worst; of equals the later one first."""
    step_metrics = [(metric, step) for step, metric in metrics.items() if metric is not None and not math.isnan(metric)]
    return [step for _, step in sorted(step_metrics, reverse=True)]
