"""The mean return as one number."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.critics.base import Critic, ValueLoss
from surefoot.math.value_clip import clipped_value_loss
from surefoot.nets.init import VALUE_GAIN, Initialiser


class ScalarCritic(Critic):
    """V(s) by squared error."""

    n_outputs = 1

    def __init__(self, n_features: int, init: Initialiser) -> None:
        super().__init__()
        self.head = init(nn.Linear(n_features, 1), VALUE_GAIN)

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.head(features)
        return out

    def mean(self, prediction: Tensor) -> Tensor:
        return prediction[..., 0]

    def risk(self, prediction: Tensor, alpha: float) -> Tensor:
        """A point mass: every CVaR is the mean."""
        del alpha
        return prediction[..., 0]

    def loss(self, prediction: Tensor, old: Tensor, targets: Tensor, clip_range: Tensor | float | None) -> ValueLoss:
        values = self.mean(prediction)
        if clip_range is None:
            error = (values - targets).square()
            return ValueLoss(error, error, error, torch.zeros_like(error))
        return ValueLoss(*clipped_value_loss(values, self.mean(old), targets, clip_range))
