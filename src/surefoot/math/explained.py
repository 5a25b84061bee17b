"""How much of the targets' variance the critic explains (C11)."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.math.advantages import spread_is_zero


def explained_variance(predictions: Tensor, targets: Tensor, valid: Tensor | None = None) -> Tensor:
    """EV = 1 − Var(y − ŷ)/Var(y) over the valid entries: a 0-dim tensor.

    1 is perfect, 0 no better than a constant, negative worse than a constant. NaN if the targets do not vary
    beyond float rounding, or if fewer than two are valid: there is nothing to explain then. A constant offset
    of the predictions is not punished. All arguments have one shape, [T, N] or [B]; predictions are the
    unclipped ones.
    """
    not_defined = torch.full((), torch.nan, dtype=targets.dtype, device=targets.device)
    if targets.numel() == 0:
        return not_defined
    mask = torch.ones_like(targets, dtype=torch.bool) if valid is None else valid.bool()
    y = torch.where(mask, targets, 0.0)
    largest = y.abs().amax()
    # Unit magnitude keeps the squares within float32 whatever the unit of the returns.
    unit = torch.where(largest == 0, 1.0, largest)
    residual = torch.where(mask, targets - predictions, 0.0) / unit
    unexplained, total = _variance_sum(residual, mask), _variance_sum(y / unit, mask)
    is_flat = spread_is_zero(targets, mask)
    explained = 1.0 - unexplained / torch.where(is_flat, 1.0, total)
    return torch.where(is_flat, not_defined, explained)


def _variance_sum(entries: Tensor, mask: Tensor) -> Tensor:
    mean = entries.sum() / mask.sum().clamp(min=1)
    return torch.where(mask, (entries - mean) ** 2, 0.0).sum()
