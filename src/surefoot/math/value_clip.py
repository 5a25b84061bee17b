"""Clipping of critic predictions around their old values; targets are never clipped (C01, C02, C06).

Old predictions are data: no gradient flows into them. Ranges are in the unit of the values.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from surefoot.math._clamp import clamp_between

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


def clip_quantiles(
    quantiles: Tensor,
    old_quantiles: Tensor,
    clip_range: Tensor | float,
    mode: ClipMode,
    *,
    spread_factor: float = SPREAD_FACTOR,
) -> Tensor:
    """Predicted quantiles moved back towards the old ones. All [B, N].

    With m, sd the mean and standard deviation over N, m_c = m clipped to m_old ± c, f = `spread_factor`:

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
    mean, old_mean = quantiles.mean(-1, keepdim=True), old.mean(-1, keepdim=True)
    new_mean = clip_values(mean, old_mean, clip_range)
    shifted = quantiles + (new_mean - mean)
    if mode == "mean_only":
        return shifted
    if mode == "mean_and_variance":
        deviations = quantiles - mean
        variance = deviations.square().mean(-1, keepdim=True)
        old_variance = (old - old_mean).square().mean(-1, keepdim=True)
        is_conditional, scale = _spread_cap(variance, old_variance, spread_factor)
        return torch.where(is_conditional, new_mean + deviations * scale, shifted)
    raise ValueError(_unknown_mode(mode))


def clip_atoms(
    probs: Tensor,
    old_probs: Tensor,
    atoms: Tensor,
    clip_range: Tensor | float,
    mode: ClipMode,
    *,
    spread_factor: float = SPREAD_FACTOR,
) -> Tensor:
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
    mean, old_mean = (probs * atoms).sum(-1, keepdim=True), (old * atoms).sum(-1, keepdim=True)
    new_mean = clip_values(mean, old_mean, clip_range)
    shifted = grid + (new_mean - mean)
    if mode == "mean_only":
        return shifted
    if mode == "mean_and_variance":
        deviations = grid - mean
        variance = (probs * deviations.square()).sum(-1, keepdim=True)
        old_variance = (old * (atoms - old_mean).square()).sum(-1, keepdim=True)
        is_conditional, scale = _spread_cap(variance, old_variance, spread_factor)
        return torch.where(is_conditional, new_mean + deviations * scale, shifted)
    raise ValueError(_unknown_mode(mode))


def _spread_cap(variance: Tensor, old_variance: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """Whether sd > f·sd_old, and the scale f·sd_old/sd there (1 elsewhere, with a finite gradient)."""
    if factor < 1.0:
        raise ValueError(f"spread_factor must be at least 1, got {factor}")
    is_conditional = variance > factor * factor * old_variance
    safe_variance = torch.where(is_conditional, variance, 1.0)
    return is_conditional, torch.where(is_conditional, factor * old_variance.sqrt() * safe_variance.rsqrt(), 1.0)


def _quantile_at_levels(probs: Tensor, atoms: Tensor, levels: Tensor) -> Tensor:
    """Q(u) = first atom whose cumulative probability reaches u. `probs`, `levels` [B, K] -> [B, K]."""
    index = torch.searchsorted(probs.cumsum(-1).contiguous(), levels.contiguous())
    return atoms[index.clamp(max=atoms.shape[0] - 1)]


def _unknown_mode(mode: str) -> str:
    return f"mode must be one of none, mean_only, mean_and_variance, per_quantile, got {mode!r}"
