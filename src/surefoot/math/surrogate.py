"""Importance ratio and clipped policy objective (P01, P02, P09)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from surefoot.math._clamp import clamp_between

LOG_RATIO_BOUND = 20.0
"""exp(20) ≈ 4.9e8 times any sane advantage is finite in float32."""

LOG_RATIO_EXTREME = 10.0
"""A log-ratio beyond this is no small policy step, though still inside the bound."""

Bound = Literal["clamp", "tanh"]


def bound_log_ratio(log_ratio: Tensor, bound: Bound = "clamp") -> Tensor:
    """The log-ratio d kept within ±20, elementwise, any shape.

        clamp: min(max(d, −20), 20)      no gradient beyond the bound
        tanh:  20·tanh(d/20)             a gradient everywhere (in float32 up to |d| ≈ 170)

    NaN stays NaN in both; ±Inf becomes ±20. Look for non-finite values before.
    """
    if bound == "clamp":
        return log_ratio.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    if bound == "tanh":
        return LOG_RATIO_BOUND * torch.tanh(log_ratio / LOG_RATIO_BOUND)
    raise ValueError(f"bound must be 'clamp' or 'tanh', got {bound!r}")


def importance_ratio(log_prob: Tensor, old_log_prob: Tensor | float = 0.0, bound: Bound = "clamp") -> Tensor:
    """r = exp(bound(log π(a|s) − log π_old(a|s))), one per sample [B]; finite for every finite pair.

    With the default for `old_log_prob`, `log_prob` is the log-ratio already, such as a sum over heads.

    Source: Schulman et al. 2017, https://arxiv.org/abs/1707.06347 (section 3).
    """
    return torch.exp(bound_log_ratio(log_prob - old_log_prob, bound))


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
