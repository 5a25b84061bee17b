"""What a critic is: features in, a prediction out, and all that can be asked of a prediction.

A prediction is a tensor [B, K]: one mean (K = 1), N quantiles, or N logits over atoms. It is stored in the rollout
as it is, so that clipping compares a critic with its own old output. Everything is in the unit of the (normalised)
rewards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn


class ValueLoss(NamedTuple):
    """Per-sample value loss [B] and what value clipping did to it."""

    loss: Tensor
    """What is minimised: the larger of the two below, or the first if clipping is off."""
    unclipped: Tensor
    clipped: Tensor
    active: Tensor
    """1 where the clipped loss is the larger one, so that clipping changed the sample's gradient."""


class Critic(nn.Module, ABC):
    """Interface of all critics."""

    n_outputs: int
    """K, the width of a prediction."""

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor:
        """Features [B, F] -> prediction [B, K]."""

    @abstractmethod
    def mean(self, prediction: Tensor) -> Tensor:
        """Expected return [B] of a prediction [B, K]; the V of GAE."""

    @abstractmethod
    def risk(self, prediction: Tensor, alpha: float) -> Tensor:
        """CVaR_alpha of the return [B]: the mean of its worst ``alpha`` share."""

    @abstractmethod
    def loss(self, prediction: Tensor, old: Tensor, targets: Tensor, clip_range: Tensor | float | None) -> ValueLoss:
        """Per-sample loss against returns [B]; with ``clip_range`` the prediction is clipped around ``old`` (C01)."""
