"""The table of all metrics: log key, of what it is computed, how it is reduced, unit and meaning.

A new metric of something that is known already is one line here, or in code of one's own
``OF_ROLLOUT.append(Metric(…))``. ``of`` says how it is computed:

- `OF_ROWS`: a function of `Rows`, one value for each row of all minibatches with a finite gradient;
- `OF_TERMS`: the same, declared by loss terms (`LossTerm.metrics`);
- `OF_ROLLOUT`: a function of `RolloutData`, values of the rollout that the update learns from, None if there are none;
- `OF_HEADS`: a function of `HeadRows`, one value for each head in each row;
- `OF_UPDATE`: a function of the finished `UpdateRecord`, which is a number, numbers by name, or None to log nothing;
- `ELSEWHERE`: computed by the module that ``maker`` names, and only declared here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from torch import Tensor

from surefoot.algo.loss_term import LossTerm
from surefoot.algo.loss_terms import LOSS_TERMS
from surefoot.math.surrogate import LOG_RATIO_BOUND, LOG_RATIO_EXTREME, clip_fraction_indicator

if TYPE_CHECKING:
    from surefoot.algo.heads import HeadRecord, HeadRows
    from surefoot.algo.record import UpdateRecord
    from surefoot.algo.rows import RolloutData, Rows

Source = TypeVar("Source")
Values = TypeVar("Values")

Reduction = Literal["mean", "std", "min", "max", "median", "p90", "slope", "count", "value"]
"""Of many values to one; ``value`` is one number already; ``p90`` and ``median`` are the smallest value that 90 % or
half of them do not exceed; ``slope`` is the change, by a straight line, from the first to the last row of an update."""


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


OF_ROWS: list[Metric[Rows, Tensor]] = [
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
        "train/entropy_slope",
        lambda r: r.terms.entropy,
        "slope",
        "nats",
        "Change of the entropy within the update, by a straight line through its rows.",
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
]


def term_metrics(terms: Iterable[type[LossTerm] | LossTerm]) -> tuple[Metric[Rows, Tensor], ...]:
    """What loss terms declare, as entries of the table; they are computed in the order of the terms."""
    declared_by_terms = [metric for term in terms for metric in term.metrics]
    return tuple(
        Metric(metric.key, partial(_of_term, i), metric.reduce, metric.unit, metric.meaning)
        for i, metric in enumerate(declared_by_terms)
    )


def _of_term(i: int, rows: Rows) -> Tensor:
    return rows.terms.metrics[i]


def coefficient_key(term: type[LossTerm] | LossTerm) -> str:
    """Under which the coefficient of a loss term is logged."""
    return f"train/{term.name}_coef"


OF_TERMS = term_metrics(LOSS_TERMS)
"""Of the loss terms that are known; logged where they are used."""

OF_ROLLOUT: list[Metric[RolloutData, Tensor | None]] = [
    Metric("train/advantage_mean", lambda d: d.advantages, "mean", "return", "Advantages before normalization."),
    Metric("train/advantage_std", lambda d: d.advantages, "std", "return", "Their standard deviation."),
    Metric("train/advantage_min", lambda d: d.advantages, "min", "return", "The smallest."),
    Metric("train/advantage_max", lambda d: d.advantages, "max", "return", "The largest."),
    Metric("train/returns_mean", lambda d: d.returns, "mean", "return", "Returns that the critic learns."),
    Metric("train/returns_std", lambda d: d.returns, "std", "return", "Their standard deviation."),
    Metric("train/value_mean", lambda d: d.values, "mean", "return", "Values V when the rollout was made."),
    Metric("train/value_std", lambda d: d.values, "std", "return", "Their standard deviation."),
    Metric("train/value_error", lambda d: (d.values - d.returns).abs(), "mean", "return", "|V − return|."),
    Metric(
        "train/explained_variance_min_env",
        lambda d: d.explained_variance_by_env,
        "min",
        "share",
        "Explained variance in the env where it is least; envs whose returns do not vary do not count.",
    ),
    Metric(
        "train/explained_variance_median_env",
        lambda d: d.explained_variance_by_env,
        "median",
        "share",
        "The median over the envs.",
    ),
    Metric(
        "train/action_share_max",
        lambda d: d.action_shares,
        "max",
        "share",
        "Of all discrete actions of the rollout, the share of the most frequent (of several choices, jointly).",
    ),
    Metric(
        "train/action_at_bound",
        lambda d: d.clipped_actions,
        "mean",
        "share",
        "Entries of Gaussian Box actions that were clipped to a bound.",
    ),
    Metric("train/std", lambda d: d.stds, "mean", "action", "σ of Gaussian Box actions, in the units of the env."),
]

OF_HEADS: list[Metric[HeadRows, Tensor]] = [
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
        "train/head/<head>/entropy_normalized",
        lambda h: h.entropy * h.inverse_log_legal,
        "mean",
        "share",
        "H/ln(number of legal choices), over the rows with more than one.",
        among=lambda h: h.inverse_log_legal > 0,
    ),
]
"""NaN without rows that count (F03)."""

OF_HEAD_RECORDS: list[Metric[HeadRecord, float | None]] = [
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
]

Number = float | Mapping[str, float] | None

OF_UPDATE: list[Metric[UpdateRecord, Number]] = [
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
    Metric(
        "train/critic_learning_rate",
        lambda u: u.coefficients.critic_learning_rate,
        "value",
        "1",
        "Learning rate of the critic's own parts, if it has one.",
    ),
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
    Metric(
        "train/critics_grad_ratio",
        lambda u: u.twin_ratio,
        "value",
        "1",
        "Gradient norm of the first twin by that of the second (C08).",
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
        lambda u: 1.0 if u.zero_std else None,
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
    Metric(
        "warn/critic1_vanishing_gradients",
        lambda u: u.vanished("critic1"),
        "mean",
        "1",
        "Gradient norm of the first twin, if it hardly learns: below 1e-8 (C08).",
    ),
    Metric("warn/critic2_vanishing_gradients", lambda u: u.vanished("critic2"), "mean", "1", "The same of the second."),
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
]

EPISODES, EVALUATION, CLOCK = "rollout/episode_statistics.py", "evaluate/episodes.py", "train/loop.py"
LEARNER, RISK, TAIL, COST = "algo/learner.py", "risk/", "risk/shortfall.py", "risk/cost.py"

ELSEWHERE: tuple[Declared, ...] = (
    Declared("rollout/ep_rew_mean", EPISODES, "mean", "reward", "Raw return of the recent episodes."),
    Declared("rollout/ep_len_mean", EPISODES, "mean", "steps", "Their length."),
    Declared("rollout/ep_cost_mean", EPISODES, "mean", "cost", "Their cost, if the env gives costs."),
    Declared("rollout/success_rate", EPISODES, "mean", "share", "Of them, those that ended with is_success."),
    Declared("rollout/episodes", EPISODES, "count", "episodes", "Episodes that have ended so far."),
    Declared(
        "train/quantile_spread",
        "critics/calibration.py",
        "mean",
        "return",
        "95 % − 5 % quantile of a distributional critic.",
    ),
    Declared("train/critic_gap", "critics/twin.py", "mean", "return", "|V1 − V2| of twin critics (C02)."),
    Declared(
        "train/popart_mean", "critics/popart.py", "value", "return", "Mean by which PopArt normalizes returns (A09)."
    ),
    Declared("train/popart_std", "critics/popart.py", "value", "return", "Standard deviation by which it does."),
    Declared("train/out_of_support_fraction", "critics/categorical.py", "mean", "share", "Returns outside the atoms."),
    Declared(
        "train/observation_mean_drift",
        LEARNER,
        "max",
        "σ",
        "How far a mean of the observations moved, in old standard deviations.",
    ),
    Declared("train/observation_std_drift", LEARNER, "max", "1", "|σ_new/σ_old − 1| of the observations."),
    Declared(
        "train/vgs_multiplier/<part>",
        "optim/vgs.py",
        "mean",
        "1",
        "Multiplier of the learning rate by VGS, over the parameters of one part (O06).",
    ),
    Declared(
        "train/head/<head>/vgs_multiplier",
        "optim/vgs.py",
        "mean",
        "1",
        "Multiplier of the learning rate by VGS, over the outputs of one head (O06).",
    ),
    Declared("train/reward_scale", LEARNER, "value", "reward", "What rewards are divided by (A07)."),
    Declared(
        "train/entropy_decay_delayed",
        "algo/coefficients.py",
        "count",
        "updates",
        "Updates that the entropy decay has waited on plateaus (P07).",
    ),
    Declared(
        "risk/coverage_<level>",
        "critics/calibration.py",
        "mean",
        "share",
        "Returns of finished episodes within the predicted quantile of that level in % (R05).",
    ),
    Declared("risk/cvar", TAIL, "value", "reward", "CVaR of the returns of recent episodes, or of rewards of steps."),
    Declared("risk/cvar_se", TAIL, "value", "reward", "Standard error of that estimate."),
    Declared("risk/var", TAIL, "value", "reward", "VaR of them."),
    Declared("risk/level", TAIL, "value", "share", "Share of them that is in the tail."),
    Declared("risk/sample", TAIL, "count", "episodes or steps", "How many the estimate rests on."),
    Declared("risk/tail_episodes", TAIL, "count", "episodes", "Episodes of the tail that ended in this rollout (R08)."),
    Declared("risk/tail_episodes_wanted", TAIL, "value", "episodes", "How many would teach steadily."),
    Declared("risk/tail_steps", TAIL, "count", "steps", "Steps of the tail in this rollout, for a limit per step."),
    Declared(
        "risk/shortfall_explained_variance",
        "algo/estimate.py",
        "value",
        "share",
        "Explained variance of the critic of the shortfall.",
    ),
    Declared("risk/rollouts_without_episode", COST, "count", "updates", "Rollouts in a row in which no episode ended."),
    Declared(
        "risk/cvar_predicted",
        "risk/calibration.py",
        "mean",
        "reward",
        "CVaR that the critic predicts at first steps (R05).",
    ),
    Declared(
        "risk/cvar_discounted",
        "risk/calibration.py",
        "value",
        "reward",
        "CVaR of the discounted returns of recent episodes.",
    ),
    Declared("risk/cvar_gap", "risk/calibration.py", "value", "reward", "Predicted minus found."),
    Declared(
        "risk/violation", RISK, "value", "reward or cost", "By how much the limit is broken; negative if there is room."
    ),
    Declared("risk/std", RISK, "std", "reward or cost", "Standard deviation of what is limited."),
    Declared("risk/multiplier", "risk/multiplier.py", "value", "1", "Lagrange multiplier (R03)."),
    Declared("risk/multiplier_integral", "risk/multiplier.py", "value", "1", "Its integral part."),
    Declared("risk/cost", COST, "mean", "cost", "Cost of the recent episodes."),
    Declared(
        "risk/cost_explained_variance", "algo/estimate.py", "value", "share", "Explained variance of the cost critic."
    ),
    Declared("time/fps", CLOCK, "mean", "steps/s", "Env steps per second since training began."),
    Declared("time/time_elapsed", CLOCK, "value", "s", "Time since training began."),
    Declared("time/iterations", CLOCK, "count", "updates", "Updates so far."),
    Declared("time/total_timesteps", CLOCK, "count", "steps", "Env steps so far."),
    Declared("eval/mean_reward", EVALUATION, "mean", "reward", "Raw return of the evaluation episodes."),
    Declared("eval/std_reward", EVALUATION, "std", "reward", "Its standard deviation over episodes."),
    Declared("eval/min_reward", EVALUATION, "min", "reward", "The worst episode."),
    Declared("eval/max_reward", EVALUATION, "max", "reward", "The best episode."),
    Declared("eval/mean_ep_length", EVALUATION, "mean", "steps", "Length of the episodes."),
    Declared("eval/episodes", EVALUATION, "count", "episodes", "Episodes played."),
    Declared("eval/success_rate", EVALUATION, "mean", "share", "Episodes that ended with is_success."),
    Declared("eval/best_mean_reward", "train/callbacks.py", "max", "reward", "Best mean_reward so far."),
    Declared(
        "warn/few_tail_episodes",
        TAIL,
        "count",
        "episodes",
        "Episodes of the tail, if fewer than wanted: raise n_envs or ppo.n_steps.",
    ),
    Declared(
        "warn/limit_unreachable",
        "risk/reachability.py",
        "value",
        "std",
        "Violation that does not fall although the multiplier has grown large.",
    ),
    Declared("warn/env_restarts", LEARNER, "count", "envs", "Worker processes that were started again."),
)

COEFFICIENTS = tuple(
    Declared(coefficient_key(term), "algo/update_metrics.py", "value", "1", f"Coefficient of {term.metrics[0].key}.")
    for term in LOSS_TERMS
)
"""Of the loss terms that are known."""

COMPUTED: tuple[Metric[Any, Any], ...] = (*OF_ROWS, *OF_TERMS, *OF_ROLLOUT, *OF_UPDATE, *OF_HEADS, *OF_HEAD_RECORDS)
TABLE: dict[str, Metric[Any, Any] | Declared] = {
    **{metric.key: metric for metric in COMPUTED},
    **{metric.key: metric for metric in (*COEFFICIENTS, *ELSEWHERE)},
}
"""All metrics by key."""


def declared(key: str) -> Metric[Any, Any] | Declared | None:
    """The entry of a key that was logged; None if there is none."""
    if key in TABLE:
        return TABLE[key]
    for pattern, entry in TABLE.items():
        first, name, last = pattern.partition("<")[0], "<" in pattern, pattern.partition(">")[2]
        if name and key.startswith(first) and key.endswith(last) and len(key) > len(first) + len(last):
            return entry
    return None
