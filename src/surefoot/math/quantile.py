"""Quantile regression for critics that predict N quantiles (C04)."""

from __future__ import annotations

import torch
from torch import Tensor


def midpoints(n: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Tensor:
    """τ_i = (i + ½)/n for i = 0 … n − 1: the levels whose quantiles represent n equal shares of probability,
    [n].

    Source: Dabney et al. 2018, https://arxiv.org/abs/1710.10044 (lemma 2).
    """
    if n < 1:
        raise ValueError(f"midpoints needs at least one quantile, got n={n}")
    return (torch.arange(n, dtype=dtype or torch.get_default_dtype(), device=device) + 0.5) / n


def huber_loss(quantiles: Tensor, targets: Tensor, kappa: float | Tensor) -> Tensor:
    """Quantile Huber loss per sample, to be minimised: [B, N] and [B] or [B, M] -> [B].

        u_ij = y_j − q_i,   ρ_ij = |τ_i − 1{u_ij < 0}|·H_κ(u_ij)/κ,   loss = mean over i and j of ρ_ij
        H_κ(u) = ½u² if |u| ≤ κ, else κ(|u| − ½κ)

    κ = 0 is the plain pinball loss, the limit of the above; as a 0-dim tensor κ must be positive. It must be small
    against the std of the targets (0.05 of it, say): where |u| ≤ κ the loss is quadratic and finds expectiles, which
    understate the tails. `targets` [B, M] are M equally likely values of the target, for example the successor's
    quantiles; no gradient flows into them. Source: Dabney et al. 2018, https://arxiv.org/abs/1710.10044 (eq. 10).
    """
    if not isinstance(kappa, Tensor) and kappa < 0.0:
        raise ValueError(f"kappa must not be negative, got {kappa}")
    if quantiles.dim() != 2 or targets.dim() not in (1, 2) or targets.shape[0] != quantiles.shape[0]:
        raise ValueError(
            f"huber_loss expects quantiles [B, N] and targets [B] or [B, M]; "
            f"got {tuple(quantiles.shape)} and {tuple(targets.shape)}"
        )
    levels = midpoints(quantiles.shape[1], dtype=quantiles.dtype, device=quantiles.device)
    if targets.dim() == 2:
        quantiles, levels = quantiles.unsqueeze(2), levels.unsqueeze(1)
    error = targets.detach().unsqueeze(1) - quantiles
    # H_κ(u) = c·(u − ½c) with c = u clamped to ±κ, and c is its slope: held fixed, c gives the value and the gradient.
    with torch.no_grad():
        if isinstance(kappa, Tensor) or kappa > 0.0:
            width = kappa if isinstance(kappa, Tensor) else error.new_tensor(kappa)
            bend = error.clamp(-width, width)
            slope = bend / width
        else:
            bend, slope = torch.zeros_like(error), error.sign()
        slope = torch.where(slope < 0.0, (1.0 - levels) * slope, levels * slope)
    return (slope * (error - 0.5 * bend)).flatten(1).mean(1)
