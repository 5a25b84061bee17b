"""Clamping between bounds that are numbers or tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def clamp_between(x: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """x clamped to [low, high]; the bounds broadcast against x. NaN stays NaN."""
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        return torch.clamp(
            x,
            torch.as_tensor(low, dtype=x.dtype, device=x.device),
            torch.as_tensor(high, dtype=x.dtype, device=x.device),
        )
    return torch.clamp(x, low, high)
