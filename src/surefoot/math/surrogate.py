"""Importance ratio and clipped policy objective (P01, P02, P09)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from surefoot.math._clamp import clamp_between

LOG_RATIO_BOUND = 20.0
"""exp(20) ≈ 4.9e8 times any sane advantage is finite in float32."""

LOG_RATIO_EXTREME = 10.0
"""A log-ratio beyond this is no small policy step, though still inside the bound."""

Bound = Literal["clamp", "tanh"]


class LogRatioStats(NamedTuple):
    """What the log-ratios looked like *before* the bound. All 0-dim; NaN where there was no sample."""

    mean: Tensor
    std: Tensor
    max_abs: Tensor
    bounded_fraction: Tensor
    extreme_fraction: Tensor
    nan_count: Tensor
    inf_count: Tensor


def bound_log_ratio(log_ratio: Tensor, bound: Bound = "clamp") -> Tensor:
    """The log-ratio d kept within ±20, elementwise, any shape.

        clamp: min(max(d, −20), 20)      no gradient beyond the bound
        tanh:  20·tanh(d/20)             a gradient everywhere (in float32 up to |d| ≈ 170)

    NaN stays NaN in both; ±Inf becomes ±20. Look for non-finite values before (`log_ratio_statistics`).
    """
    if bound == "clamp":
        return log_ratio.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    if bound == "tanh":
        return LOG_RATIO_BOUND * torch.tanh(log_ratio / LOG_RATIO_BOUND)
    raise ValueError(f"bound must be 'clamp' or 'tanh', got {bound!r}")


def importance_ratio(log_prob: Tensor, old_log_prob: Tensor, bound: Bound = "clamp") -> Tensor:
    """r = exp(bound(log π(a|s) − log π_old(a|s))), one per sample [B]; finite for every finite pair.

    Source: Schulman et al. 2017, https://arxiv.org/abs/1707.06347 (section 3).
    """
    return torch.exp(bound_log_ratio(log_prob - old_log_prob, bound))


def log_ratio_statistics(log_ratio: Tensor, weight: Tensor | None = None) -> LogRatioStats:
    """Statistics of unbounded log-ratios d, shape [B] or any; `weight` of the same shape, 0 = not a sample.

    `mean`, `std` (population) and `max_abs` are over finite samples only. `bounded_fraction` is the weighted
    share of all samples with |d| > 20, `extreme_fraction` with |d| > 10; Inf counts in both, NaN in neither.
    The counts are numbers of samples with non-zero weight.
    """
    d = log_ratio.detach()
    weights = torch.ones_like(d) if weight is None else weight.detach().to(d.dtype)
    is_sample = weights > 0
    is_finite = is_sample & torch.isfinite(d)
    finite, finite_weights = torch.where(is_finite, d, 0.0), torch.where(is_finite, weights, 0.0)
    # Without samples the totals are 0 and the quotients 0/0 = NaN, as they should be.
    total, finite_total = weights.sum(), finite_weights.sum()
    mean = (finite_weights * finite).sum() / finite_total
    variance = (finite_weights * (finite - mean) ** 2).sum() / finite_total
    size = d.abs()
    largest = finite.abs().amax() if d.numel() else finite_total
    return LogRatioStats(
        mean=mean,
        std=variance.sqrt(),
        max_abs=torch.where(finite_total > 0, largest, torch.nan),
        bounded_fraction=(weights * (size > LOG_RATIO_BOUND)).sum() / total,
        extreme_fraction=(weights * (size > LOG_RATIO_EXTREME)).sum() / total,
        nan_count=(is_sample & torch.isnan(d)).sum(),
        inf_count=(is_sample & torch.isinf(d)).sum(),
    )


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, clip_range: Tensor | float, dual_clip: float | None = None
) -> Tensor:
    """PPO's clipped policy loss per sample [B], to be minimised: the negative of the objective.

        objective = min(r·A, clip(r, 1 − ε, 1 + ε)·A)
        with `dual_clip` = c > 1, where A < 0:   max(objective, c·A)

    Without the second clip the objective has no lower bound for A < 0 and large r.
    Source: Schulman et al. 2017, https://arxiv.org/abs/1707.06347 (eq. 7); Ye et al. 2020,
    https://arxiv.org/abs/1912.09729 (eq. 5, dual clip).
    """
    if dual_clip is not None and dual_clip <= 1.0:
        raise ValueError(f"dual_clip must be greater than 1, got {dual_clip}")
    with torch.no_grad():
        unclipped = ratio * advantages
        clipped = clamp_between(ratio, 1.0 - clip_range, 1.0 + clip_range) * advantages
        objective, follows = torch.minimum(unclipped, clipped), unclipped <= clipped
        if dual_clip is not None:
            floor = torch.where(advantages < 0, dual_clip * advantages, -torch.inf)
            objective, follows = torch.maximum(objective, floor), follows & (floor < objective)
        slope = torch.where(follows, advantages, 0.0)
    # The value of the objective with its known slope: differentiating the clips one by one takes three times as long.
    return slope * (ratio.detach() - ratio) - objective


def clip_fraction_indicator(ratio: Tensor, clip_range: Tensor | float) -> Tensor:
    """1 where |r − 1| > ε, else 0, per sample [B], in the dtype of `ratio` and without gradient."""
    return ((ratio.detach() - 1.0).abs() > clip_range).to(ratio.dtype)
