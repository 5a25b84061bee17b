"""The table of all metrics: log key, of what it is computed, how it is reduced, unit and meaning.

A new metric of something that is known already is one line here. ``of`` says how it is computed:

- `OF_ROWS`: a function of `Rows`, one value for each row of all minibatches with a finite gradient;
- `OF_ROLLOUT`: a function of `RolloutData`, values of the rollout that the update learns from, None if there are none;
- `OF_HEADS`: a function of `HeadRows`, one value for each head in each row;
- `OF_UPDATE`: a function of the finished `UpdateRecord`, which is a number, numbers by name, or None to log nothing;
- `ELSEWHERE`: computed by the module that ``maker`` names, and only declared here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from torch import Tensor

from surefoot.math.surrogate import LOG_RATIO_BOUND, LOG_RATIO_EXTREME, clip_fraction_indicator

if TYPE_CHECKING:
    from surefoot.algo.heads import HeadRecord, HeadRows
    from surefoot.algo.record import UpdateRecord
    from surefoot.algo.rows import RolloutData, Rows

Source = TypeVar("Source")
Values = TypeVar("Values")

Reduction = Literal["mean", "std", "min", "max", "median", "p90", "count", "value"]
"""Of many values to one; ``value`` is one number already; ``p90`` and ``median`` are the smallest value that 90 % or
half of them do not exceed."""


@dataclass(frozen=True)
class Metric(Generic[Source, Values]):
    """One log key. ``<…>`` in it stands for a name: of a head, of a part of the policy."""

    key: str
    of: Callable[[Source], Values]
    reduce: Reduction
    unit: str
    """``1`` for a number without unit, ``return`` for the unit of the critic (that of normalized rewards)."""
    meaning: str
    when: Callable[[UpdateRecord], bool] | None = None
    """Whether it is logged; None is always."""
    among: Callable[[Source], Tensor] | None = None
    """Rows that count, of heads; None is those in which the head is active."""


class Logged:
    """Typed access to one of a record's ``values``."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __get__(self, record: Any, owner: type) -> float:
        value: float = record.values[self._key]
        return value


@dataclass(frozen=True)
class Declared:
    """A log key whose value is made by another module."""

    key: str
    maker: str
    reduce: Reduction
    unit: str
    meaning: str


def _clips_values(update: UpdateRecord) -> bool:
    return update.coefficients.clip_range_vf is not None


def _skipped(update: UpdateRecord) -> bool:
    return update.skipped_steps > 0


OF_ROWS: tuple[Metric[Rows, Tensor], ...] = (
    Metric("train/loss", lambda r: r.terms.loss, "mean", "1", "What is minimized: the sum of all loss terms."),
    Metric("train/policy_gradient_loss", lambda r: r.terms.policy, "mean", "1", "Clipped surrogate loss."),
    Metric("train/value_loss", lambda r: r.terms.value, "mean", "1", "Loss of the critic, before vf_coef."),
    Metric(
        "train/value_loss_unclipped",
        lambda r: r.terms.value_unclipped,
        "mean",
        "1",
        "Loss of the critic without value clipping.",
        _clips_values,
    ),
    Metric(
        "train/value_loss_clipped",
        lambda r: r.terms.value_clipped,
        "mean",
        "1",
        "Loss of the critic's clipped prediction.",
        _clips_values,
    ),
    Metric(
        "train/value_clip_active",
        lambda r: r.terms.value_clip_active,
        "mean",
        "share",
        "Rows whose value gradient the clip changed (C01).",
        _clips_values,
    ),
    Metric(
        "train/entropy", lambda r: r.terms.entropy, "mean", "nats", "Entropy of the policy; of heads the joint one."
    ),
    Metric("train/entropy_loss", lambda r: -r.terms.entropy, "mean", "nats", "Minus the entropy, as SB3 logs it."),
    Metric("train/entropy_min", lambda r: r.terms.entropy, "min", "nats", "Entropy in the most certain row."),
    Metric("train/entropy_max", lambda r: r.terms.entropy, "max", "nats", "Entropy in the least certain row."),
    Metric(
        "train/logit_penalty",
        lambda r: r.terms.penalty,
        "mean",
        "1",
        "Penalty on large logits; logged if there was any.",
        lambda u: u.values["train/logit_penalty"] != 0.0,
    ),
    Metric(
        "train/approx_kl",
        lambda r: r.kl,
        "mean",
        "nats",
        "KL(old ‖ new) by kl_estimator; of heads the sum over the active ones (F06).",
    ),
    Metric("train/kl_p90", lambda r: r.kl, "p90", "nats", "KL per row that 90 % do not exceed; by k3 if KL is exact."),
    Metric("train/kl_max", lambda r: r.kl, "max", "nats", "Largest KL of a row; by k3 if KL is exact."),
    Metric(
        "train/clip_fraction",
        lambda r: clip_fraction_indicator(r.terms.ratio, r.clip_range),
        "mean",
        "share",
        "Rows whose ratio is outside the clip range.",
    ),
    Metric("train/ratio", lambda r: r.terms.ratio, "mean", "1", "Importance ratio π/π_old, bounded (P01)."),
    Metric("train/ratio_max", lambda r: r.terms.ratio, "max", "1", "Largest importance ratio."),
    Metric("train/ratio_min", lambda r: r.terms.ratio, "min", "1", "Smallest importance ratio."),
    Metric("train/log_ratio_mean", lambda r: r.terms.log_ratio, "mean", "nats", "Log-ratio, before any bound."),
    Metric("train/log_ratio_std", lambda r: r.terms.log_ratio, "std", "nats", "Standard deviation of the log-ratio."),
    Metric("train/log_ratio_max", lambda r: r.terms.log_ratio.abs(), "max", "nats", "Largest |log-ratio| (P01)."),
    Metric(
        "train/log_ratio_bounded_fraction",
        lambda r: r.terms.log_ratio.abs() > LOG_RATIO_BOUND,
        "mean",
        "share",
        f"Rows with |log-ratio| > {LOG_RATIO_BOUND:g}, where the bound acts.",
    ),
    Metric(
        "train/log_ratio_extreme_fraction",
        lambda r: r.terms.log_ratio.abs() > LOG_RATIO_EXTREME,
        "mean",
        "share",
        f"Rows with |log-ratio| > {LOG_RATIO_EXTREME:g}: no small policy step.",
    ),
)

OF_ROLLOUT: tuple[Metric[RolloutData, Tensor | None], ...] = (
    Metric("train/advantage_mean", lambda d: d.advantages, "mean", "return", "Advantages before normalization."),
    Metric("train/advantage_std", lambda d: d.advantages, "std", "return", "Their standard deviation."),
    Metric("train/advantage_min", lambda d: d.advantages, "min", "return", "The smallest."),
    Metric("train/advantage_max", lambda d: d.advantages, "max", "return", "The largest."),
)

OF_HEADS: tuple[Metric[HeadRows, Tensor], ...] = (
    Metric("train/head/<head>/ratio", lambda h: h.ratio, "mean", "1", "Importance ratio of the head."),
    Metric("train/head/<head>/approx_kl", lambda h: h.kl, "mean", "nats", "KL(old ‖ new) of the head."),
    Metric(
        "train/head/<head>/clip_fraction",
        lambda h: clip_fraction_indicator(h.ratio, h.clip_range),
        "mean",
        "share",
        "Rows in which the head's ratio alone is outside the clip range.",
    ),
    Metric("train/head/<head>/entropy", lambda h: h.entropy, "mean", "nats", "Entropy of the head."),
    Metric(
        "train/head/<head>/entropy_normalised",
        lambda h: h.entropy * h.inverse_log_legal,
        "mean",
        "share",
        "H/ln(number of legal choices), over the rows with more than one.",
        among=lambda h: h.inverse_log_legal > 0,
    ),
)
"""NaN without rows that count (F03)."""

OF_HEAD_RECORDS: tuple[Metric[HeadRecord, float | None], ...] = (
    Metric(
        "train/head/<head>/count", lambda h: h.count, "count", "steps", "Steps of the rollout in which it was active."
    ),
    Metric("train/head/<head>/grad_norm", lambda h: h.gradient_norm, "mean", "1", "Gradient norm of its outputs."),
    Metric(
        "train/head/<head>/ent_coef",
        lambda h: h.ent_coef,
        "value",
        "1",
        "Entropy coefficient of its own, if it has one.",
    ),
)

Number = float | Mapping[str, float] | None

OF_UPDATE: tuple[Metric[UpdateRecord, Number], ...] = (
    Metric(
        "train/kl_last", lambda u: u.kl_last, "value", "nats", "KL of the last minibatch: how far this update went."
    ),
    Metric(
        "train/log_ratio_first",
        lambda u: u.log_ratio_first,
        "max",
        "nats",
        "Largest |log-ratio| of the first minibatch: 0 up to rounding, unless rollout and update disagree (P10).",
    ),
    Metric(
        "train/explained_variance",
        lambda u: u.explained_variance,
        "value",
        "share",
        "1 − Var(return − V)/Var(return) (C11).",
    ),
    Metric("train/clip_range", lambda u: u.coefficients.clip_range, "value", "1", "Clip range of the ratio."),
    Metric("train/clip_range_vf", lambda u: u.coefficients.clip_range_vf, "value", "1", "Clip range of the value."),
    Metric("train/learning_rate", lambda u: u.coefficients.learning_rate, "value", "1", "Learning rate."),
    Metric("train/ent_coef", lambda u: u.coefficients.ent_coef, "value", "1", "Coefficient of the entropy bonus."),
    Metric("train/vf_coef", lambda u: u.coefficients.vf_coef, "value", "1", "Coefficient of the value loss."),
    Metric("train/grad_norm", lambda u: u.gradient_norm, "mean", "1", "Norm of the gradient before clipping (O05)."),
    Metric("train/grad_norm/<part>", lambda u: u.gradient_norms, "mean", "1", "The same of one part of the policy."),
    Metric(
        "train/grad_clipped_fraction",
        lambda u: u.clipped_gradients,
        "mean",
        "share",
        "Steps whose gradient was clipped.",
    ),
    Metric(
        "train/critic1_grad_norm", lambda u: u.gradient_norms.get("critic1"), "mean", "1", "Of the first twin (C08)."
    ),
    Metric(
        "train/critic2_grad_norm", lambda u: u.gradient_norms.get("critic2"), "mean", "1", "Of the second twin (C08)."
    ),
    Metric("train/gradient_steps", lambda u: u.gradient_steps, "count", "steps", "Optimizer steps of this update."),
    Metric("train/n_updates", lambda u: u.update + 1, "count", "updates", "Updates so far."),
    Metric(
        "train/kl_stop_epoch",
        lambda u: None if u.kl_stop is None else u.kl_stop.epoch,
        "value",
        "epochs",
        "Epoch in which target_kl stopped the update (P04).",
    ),
    Metric(
        "train/kl_stop_value",
        lambda u: None if u.kl_stop is None else u.kl_stop.kl,
        "value",
        "nats",
        "KL that stopped it.",
    ),
    Metric(
        "warn/zero_spread_advantages",
        lambda u: 1.0 if u.zero_spread else None,
        "value",
        "1",
        "Advantages did not vary, so there was nothing to learn from (A04).",
    ),
    Metric(
        "warn/log_ratio_bounded",
        lambda u: u.values["train/log_ratio_bounded_fraction"],
        "mean",
        "share",
        f"Rows with |log-ratio| > {LOG_RATIO_BOUND:g}, if more than 1 % (P01).",
        lambda u: u.values["train/log_ratio_bounded_fraction"] > 0.01,
    ),
    Metric("warn/critic_grad_vanished", lambda u: u.vanished_twin, "mean", "1", "vanished"),
    Metric(
        "warn/critic_grad_ratio",
        lambda u: u.unequal_twins,
        "value",
        "1",
        "Gradient norms of twin critics differ by more than a factor 100 (C08).",
    ),
    Metric(
        "error/skipped_steps",
        lambda u: u.skipped_steps,
        "count",
        "steps",
        "Optimizer steps not made because a number was not finite (O09).",
        _skipped,
    ),
    Metric(
        "error/log_ratio_nan",
        lambda u: u.nan_count,
        "count",
        "rows",
        "Log-ratios that were NaN in skipped steps.",
        _skipped,
    ),
    Metric(
        "error/log_ratio_inf",
        lambda u: u.inf_count,
        "count",
        "rows",
        "Log-ratios that were infinite in skipped steps.",
        _skipped,
    ),
)
