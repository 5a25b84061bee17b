"""The unit of returns: their running mean and standard deviation, and linear layers that change unit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.math.moments import Moments

FORGETTING = 0.1
"""Least weight of the newest rollout in the running statistics; the first rollouts weigh 1, 1/2, 1/3 …"""
NARROWEST = 1e-4
"""Least standard deviation, as a share of the mean: narrower returns are constant up to what a network resolves."""


class ReturnScale(nn.Module):
    """Running mean μ and standard deviation σ of returns, float32, saved with the policy as buffers."""

    mean: Tensor
    std: Tensor
    rollouts: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))
        self.register_buffer("rollouts", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def update_statistics(self, returns: Tensor, valid: Tensor) -> None:
        """Move towards the statistics of the valid returns of one rollout, [T, N] each."""
        batch = Moments.from_batch(returns.to(self.mean.device), valid.to(self.mean.device))
        if not bool(batch.count):
            return
        share = max(1.0 / (int(self.rollouts) + 1), FORGETTING)
        shift = batch.mean - self.mean
        mean = self.mean + share * shift
        variance = (1 - share) * (self.std.double().square() + share * shift.square()) + share * batch.variance
        std = torch.maximum(variance.sqrt(), NARROWEST * mean.abs())
        self.mean.copy_(mean)
        self.std.copy_(torch.where(std > 0, std, self.std))
        self.rollouts.add_(1)

    @torch.no_grad()
    def rescale(self, factor: Tensor, offset: Tensor) -> None:
        """The statistics of factor·y + offset."""
        self.mean.mul_(factor).add_(offset)
        self.std.mul_(factor)

    def to_unit(self, raw: Tensor) -> Tensor:
        """(y − μ)/σ; 0 without a unit, σ = 0."""
        std = self.std.to(raw.device)
        return (raw - self.mean.to(raw.device)) / torch.where(std > 0, std, torch.inf)

    def to_raw(self, unit: Tensor) -> Tensor:
        """σ·y + μ."""
        return unit * self.std.to(unit.device) + self.mean.to(unit.device)


@torch.no_grad()
def rescale_layer(layer: nn.Linear, factor: Tensor, offset: Tensor) -> None:
    """Let a linear layer put out factor·y + offset where it put out y, in place."""
    layer.weight.mul_(factor)
    layer.bias.mul_(factor).add_(offset)
