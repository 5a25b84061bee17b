"""A clamp that can be left again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _InwardClamp(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, low: float, high: float) -> Tensor:
        return x.clamp(low, high)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, float], output: Tensor) -> None:  # noqa: ARG004
        x, ctx.low, ctx.high = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        outward = ((x < ctx.low) & (grad > 0)) | ((x > ctx.high) & (grad < 0))
        return torch.where(outward, 0.0, grad), None, None


def inward_clamp(x: Tensor, low: float, high: float) -> Tensor:
    """clamp(x, low, high), any shape. Beyond a bound the gradient passes where descent along it leads back inside, and
    is 0 where it leads further out: a parameter neither drifts away nor is stuck, as one with the plain clamp is."""
    found: Tensor = _InwardClamp.apply(x, low, high)  # type: ignore[no-untyped-call]
    return found
