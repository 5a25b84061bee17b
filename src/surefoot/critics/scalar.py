"""The mean return as one number."""

from __future__ import annotations

from torch import Tensor, nn

from surefoot.critics.base import Critic, ValueLoss
from surefoot.critics.scale import rescale_layer
from surefoot.math.value_clip import clipped_value_loss, squared_error
from surefoot.nets.init import VALUE_GAIN, Initializer


class ScalarCritic(Critic):
    """V(s) by squared error."""

    n_outputs = 1

    def __init__(self, n_features: int, init: Initializer) -> None:
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

    def quantile(self, prediction: Tensor, level: float) -> Tensor:
        """A point mass: every quantile is the mean."""
        del level
        return prediction[..., 0]

    def loss(self, prediction: Tensor, old: Tensor, targets: Tensor, clip_range: Tensor | float | None) -> ValueLoss:
        values = self.mean(prediction)
        if clip_range is None:
            return ValueLoss.plain(squared_error(values, targets))
        return ValueLoss(*clipped_value_loss(values, self.mean(old), targets, clip_range))

    def rescale(self, factor: Tensor, offset: Tensor) -> None:
        rescale_layer(self.head, factor, offset)
