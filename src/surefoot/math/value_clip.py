"""Clipping of critic predictions around their old values; targets are never clipped (C01, C02, C06).

Old predictions are data: no gradient flows into them. Ranges are in the unit of the values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from surefoot.math._clamp import clamp_between

Average = Callable[[Tensor], Tensor]
"""[B, N] -> [B, 1]"""
ClipMode = Literal["none", "mean_only", "mean_and_variance", "per_quantile"]

SPREAD_FACTOR = 2.0
"""`mean_and_variance` caps the standard deviation at this multiple of the old one."""


class ClippedValueLoss(NamedTuple):
    """All [B]. `active` (bool) marks the samples whose loss is decided by the clipped prediction."""

    loss: Tensor
    unclipped: Tensor
    clipped: Tensor
    active: Tensor


def clip_values(values: Tensor, old_values: Tensor, clip_range: Tensor | float) -> Tensor:
    """v clipped to [v_old − c, v_old + c], elementwise; inside, v itself to the last bit."""
    old = old_values.detach()
    return clamp_between(values, old - clip_range, old + clip_range)


def squared_error(values: Tensor, targets: Tensor) -> Tensor:
    """ℓ(v, y) = (v − y)², per sample. No factor ½: `vf_coef` then means the same as in Stable-Baselines3."""
    return (values - targets) ** 2


def larger_loss(unclipped: Tensor, clipped: Tensor) -> ClippedValueLoss:
    """max(ℓ, ℓ_clip) per sample [B], for any critic's pair of losses against the same target."""
    return ClippedValueLoss(torch.maximum(unclipped, clipped), unclipped, clipped, clipped > unclipped)


def clipped_value_loss(
    values: Tensor, old_values: Tensor, targets: Tensor, clip_range: Tensor | float
) -> ClippedValueLoss:
    """max(ℓ(v, y), ℓ(clip(v), y)) per sample, ℓ(v, y) = (v − y)²; all arguments [B].

    Source: the PPO of OpenAI Baselines (`ppo2/model.py`), with the maximum taken per sample.
    """
    clipped = clip_values(values, old_values, clip_range)
    return larger_loss(squared_error(values, targets), squared_error(clipped, targets))


def clip_quantiles(quantiles: Tensor, old_quantiles: Tensor, clip_range: Tensor | float, mode: ClipMode) -> Tensor:
    """Predicted quantiles moved back towards the old ones. All [B, N].

    With m, sd the mean and standard deviation over N, m_c = m clipped to m_old ± c, f = `SPREAD_FACTOR`:

        none                q
        mean_only           q + (m_c − m)                              shape kept
        mean_and_variance   m_c + (q − m)·min(1, f·sd_old/sd)          shape kept up to scale, std capped
        per_quantile        each q_i clipped to q_old,i ± c
    """
    if mode == "none":
        return quantiles
    old = old_quantiles.detach()
    if mode == "per_quantile":
        return clip_values(quantiles, old, clip_range)
    average = partial(torch.mean, dim=-1, keepdim=True)
    return _moved(quantiles, old, average, average, clip_range, mode)


def clip_atoms(probs: Tensor, old_probs: Tensor, atoms: Tensor, clip_range: Tensor | float, mode: ClipMode) -> Tensor:
    """Where each atom of a categorical prediction moves; `categorical.project` brings it back to the grid.

    `probs` and `old_probs` [B, K], `atoms` [K] ascending -> moved atoms [B, K]. `mean_only` and
    `mean_and_variance` are those of `clip_quantiles`, with mean and standard deviation under the
    probabilities. `per_quantile` clips atom k to Q_old(u_k) ± c, where u_k = F_k − p_k/2 is the middle of the
    levels that atom k covers and Q_old the old quantile function; a prediction equal to the old one does not
    move. Mass moved beyond the ends of the grid lands on the end atoms: the grid must leave room.
    """
    grid = atoms.expand_as(probs)
    if mode == "none":
        return grid
    old = old_probs.detach()
    if mode == "per_quantile":
        old_quantiles = _quantile_at_levels(old, atoms, probs.detach().cumsum(-1) - 0.5 * probs.detach())
        return clip_values(grid, old_quantiles, clip_range)
    average, old_average = (lambda x, p=p: (p * x).sum(-1, keepdim=True) for p in (probs, old))
    return _moved(grid, grid, average, old_average, clip_range, mode)


def _moved(
    points: Tensor, old: Tensor, average: Average, old_average: Average, clip_range: Tensor | float, mode: ClipMode
) -> Tensor:
    """Points of a distribution in the modes about its mean."""
    if mode not in ("mean_only", "mean_and_variance"):
        raise ValueError(f"mode must be one of none, mean_only, mean_and_variance, per_quantile, got {mode!r}")
    mean, old_mean = average(points), old_average(old)
    new_mean = clip_values(mean, old_mean, clip_range)
    shifted = points + (new_mean - mean)
    if mode == "mean_only":
        return shifted
    deviations = points - mean
    variance, old_variance = average(deviations.square()), old_average((old - old_mean).square())
    is_wide = variance > SPREAD_FACTOR * SPREAD_FACTOR * old_variance
    safe_variance = torch.where(is_wide, variance, 1.0)  # for a finite gradient
    scale = SPREAD_FACTOR * old_variance.sqrt() * safe_variance.rsqrt()
    return torch.where(is_wide, new_mean + deviations * torch.where(is_wide, scale, 1.0), shifted)


def _quantile_at_levels(probs: Tensor, atoms: Tensor, levels: Tensor) -> Tensor:
    """Q(u) = first atom whose cumulative probability reaches u. `probs`, `levels` [B, K] -> [B, K]."""
    index = torch.searchsorted(probs.cumsum(-1).contiguous(), levels.contiguous())
    return atoms[index.clamp(max=atoms.shape[0] - 1)]
