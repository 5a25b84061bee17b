"""What one update did, as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from surefoot.algo.coefficients import Coefficients
from surefoot.algo.heads import HeadRecord
from surefoot.algo.metrics import OF_ROLLOUT, OF_ROWS, OF_UPDATE, Logged, Metric

TWIN_RATIO, TWIN_VANISHED = 100.0, 1e-8
"""Twin critics are unwell if their gradient norms differ by more than the first, or one is below the second."""


@dataclass(frozen=True)
class KLStop:
    """Where an update stopped because the policy had moved enough (P04)."""

    epoch: int
    minibatch: int
    kl: float


class WorstRow(NamedTuple):
    """The row of an update with the largest |log-ratio|, or the first with a number that is not finite."""

    env: int
    step: int
    """Vector step, counted from the start of training."""
    head: str | None
    """The head with the largest share in it, if the action has heads."""
    quantity: str
    """Field of `Terms`: ``log_ratio``, or the first that is not finite."""
    value: float


@dataclass(frozen=True)
class UpdateRecord:
    """Means are over all rows of all minibatches whose gradient was finite."""

    update: int
    coefficients: Coefficients
    values: dict[str, float]
    """What `OF_ROWS`, `OF_ROLLOUT` and the loss terms declare, by key."""
    kl_last: float
    """KL of the last minibatch: how far the policy moved in this update."""
    log_ratio_first: float
    """Largest |log-ratio| of the first minibatch; 0 up to rounding unless rollout and update disagree (P10)."""
    nan_count: int
    inf_count: int
    zero_std: bool
    explained_variance: float
    gradient_norm: float
    gradient_norms: dict[str, float]
    """Mean norm of each part, before clipping (O05)."""
    clipped_gradients: float
    """Share of gradient steps whose gradient was scaled down."""
    gradient_steps: int
    skipped_steps: int
    kl_stop: KLStop | None
    non_finite: tuple[str, ...] = field(default=())
    """Source of each skipped step (O09)."""
    heads: dict[str, HeadRecord] = field(default_factory=dict)
    """Each head of a factored action (F04)."""
    worst: WorstRow | None = None
    """None without diagnostics."""
    diagnostics: bool = True
    """Without, metrics of rows are NaN and not logged."""

    loss = Logged("train/loss")
    policy_loss = Logged("train/policy_gradient_loss")
    value_loss = Logged("train/value_loss")
    value_loss_unclipped = Logged("train/value_loss_unclipped")
    value_loss_clipped = Logged("train/value_loss_clipped")
    value_clip_active = Logged("train/value_clip_active")
    entropy = Logged("train/entropy")
    entropy_min = Logged("train/entropy_min")
    entropy_max = Logged("train/entropy_max")
    kl = Logged("train/approx_kl")
    clip_fraction = Logged("train/clip_fraction")
    ratio = Logged("train/ratio")
    log_ratio_mean = Logged("train/log_ratio_mean")
    log_ratio_std = Logged("train/log_ratio_std")
    log_ratio_max = Logged("train/log_ratio_max")
    bounded_fraction = Logged("train/log_ratio_bounded_fraction")
    extreme_fraction = Logged("train/log_ratio_extreme_fraction")
    advantage_mean = Logged("train/advantage_mean")
    advantage_std = Logged("train/advantage_std")
    advantage_min = Logged("train/advantage_min")
    advantage_max = Logged("train/advantage_max")

    def metrics(self) -> dict[str, float]:
        """Log keys and values; keys are those of Stable-Baselines3 where the meaning is the same."""
        of_values: tuple[Metric[Any, Any], ...] = (*OF_ROWS, *OF_ROLLOUT)
        given: list[tuple[Metric[Any, Any], Any]] = [(metric, self.values.get(metric.key)) for metric in of_values]
        given += [(metric, metric.of(self)) for metric in OF_UPDATE]
        declared = {metric.key for metric, _ in given}
        found = {key: value for key, value in self.values.items() if key not in declared}  # of loss terms
        for metric, value in given:
            if metric.when is not None and not metric.when(self):
                continue
            if isinstance(value, Mapping):
                found |= {metric.key.replace("<part>", part): number for part, number in value.items()}
            elif value is not None:
                found[metric.key] = float(value)
        for name, head in self.heads.items():
            found |= head.metrics(name)
        return found if self.diagnostics else {key: value for key, value in found.items() if not math.isnan(value)}

    @property
    def twin_ratio(self) -> float | None:
        """Gradient norm of the first twin critic by that of the second, infinite if that is 0; None without twins."""
        if "critic1" not in self.gradient_norms:
            return None
        first, second = self.gradient_norms["critic1"], self.gradient_norms["critic2"]
        return first / second if second else math.inf

    @property
    def unequal_twins(self) -> float | None:
        """The ratio, if it is large or small, and neither has vanished (C08)."""
        ratio = self.twin_ratio
        if ratio is None or any(self.vanished(part) is not None for part in ("critic1", "critic2")):
            return None
        return ratio if max(ratio, 1.0 / ratio) > TWIN_RATIO else None

    def vanished(self, critic: str) -> float | None:
        """The gradient norm of a twin critic that hardly learns (C08)."""
        norm = self.gradient_norms.get(critic, math.inf)
        return norm if norm < TWIN_VANISHED else None
