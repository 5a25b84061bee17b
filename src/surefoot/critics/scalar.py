"""The mean return as one number."""

from __future__ import annotations

from torch import Tensor, nn

from surefoot.critics.base import Critic, ValueLoss
from surefoot.critics.scale import rescale_layer
from surefoot.math.risk import cvar_from_samples
from surefoot.math.value_clip import clipped_value_loss, squared_error
from surefoot.nets.init import VALUE_GAIN, Initializer
from surefoot.nets.mlp import MLP


class ScalarCritic(Critic):
    """V(s) by squared error; with ``hidden`` layers of its own behind the features."""

    n_outputs = 1

    def __init__(self, n_features: int, init: Initializer, hidden: MLP | None = None) -> None:
        super().__init__()
        self.hidden = hidden
        self.output = init(nn.Linear(n_features if hidden is None else hidden.n_outputs, 1), VALUE_GAIN)

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.output(features if self.hidden is None else self.hidden(features))
        return out

    def mean(self, prediction: Tensor) -> Tensor:
        return prediction[..., 0]

    def risk(self, prediction: Tensor, alpha: float) -> Tensor:
        """A point mass: every CVaR is the mean."""
        del alpha
        return prediction[..., 0]

    def mixture_risk(self, prediction: Tensor, alpha: float) -> Tensor:
        """Of M equally likely point masses."""
        return cvar_from_samples(self.mean(prediction), alpha)

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
        rescale_layer(self.output, factor, offset)
