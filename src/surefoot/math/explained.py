"""How much of the targets' variance the critic explains (C11)."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.math.advantages import over, std_is_zero


def explained_variance(
    predictions: Tensor, targets: Tensor, valid: Tensor | None = None, by_env: bool = False
) -> Tensor:
    """EV = 1 − Var(y − ŷ)/Var(y) over the valid entries, 0-dim; with `by_env` within each column of [T, N]: [N].

    1 is perfect, 0 no better than a constant, negative worse than a constant. NaN if the targets do not vary
    beyond float rounding, or if fewer than two are valid: there is nothing to explain then. A constant offset
    of the predictions is not punished. All arguments have one shape, [T, N] or [B]; predictions are the
    unclipped ones.
    """
    shape = targets.shape[1:] if by_env else ()
    if targets.numel() == 0:
        return torch.full(shape, torch.nan, dtype=targets.dtype, device=targets.device)
    mask = torch.ones_like(targets, dtype=torch.bool) if valid is None else valid.bool()
    dims, is_flat = over(targets, by_env), std_is_zero(targets, mask, by_env=by_env)
    y = torch.where(mask, targets, 0.0)
    largest = y.abs().amax(dims, keepdim=True)
    # Unit magnitude keeps the squares within float32 whatever the unit of the returns.
    unit = torch.where(largest == 0, 1.0, largest)
    residual = torch.where(mask, targets - predictions, 0.0) / unit
    unexplained, total = _variance_sum(residual, mask, dims), _variance_sum(y / unit, mask, dims)
    explained = 1.0 - unexplained / torch.where(is_flat, 1.0, total)
    return torch.where(is_flat, torch.nan, explained).reshape(shape)


def _variance_sum(entries: Tensor, mask: Tensor, dims: tuple[int, ...]) -> Tensor:
    mean = entries.sum(dims, keepdim=True) / mask.sum(dims, keepdim=True).clamp(min=1)
    return torch.where(mask, (entries - mean) ** 2, 0.0).sum(dims, keepdim=True)
