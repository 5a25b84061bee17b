"""The distribution of the return as N quantiles."""

from __future__ import annotations

from torch import Tensor, nn

from surefoot.critics.base import Critic, ValueLoss
from surefoot.critics.scale import ReturnScale, rescale_layer
from surefoot.math.quantile import huber_loss
from surefoot.math.risk import cvar_from_quantiles, mixture_cvar_from_quantiles, var_from_quantiles
from surefoot.math.value_clip import ClipMode, clip_quantiles, larger_loss
from surefoot.nets.init import VALUE_GAIN, Initializer


class QuantileCritic(Critic):
    """Quantiles at the midpoints of N equal shares of probability, by quantile regression (C04).

    The head is plain linear: outputs may cross, the loss pulls each to its own level, and every functional sorts before
    it reads a tail (C05). A head that is monotone by construction could not change its unit exactly (PopArt).

    ``kappa`` is the half-width of the loss's quadratic zone as a share of the running standard deviation of the
    returns. It makes the loss smooth and draws the quantile of level τ towards the middle, by about kappa·(½ − τ) of
    the standard deviation; so it is small. At 1 the loss finds expectiles.

    With ``backup`` the target is the distribution r + γ·q_j(s′), j = 1 … N, instead of a return. A λ-return replaces
    what comes after a while by its mean, so a critic of λ-returns with λ < 1 sees too thin tails; on the other hand
    it learns the mean faster, since news travels many steps in one update.
    """

    is_distributional = True

    def __init__(
        self, n_features: int, init: Initializer, n_quantiles: int, kappa: float, clip_mode: ClipMode, backup: bool
    ) -> None:
        super().__init__()
        self.n_outputs = n_quantiles
        self.output = init(nn.Linear(n_features, n_quantiles), VALUE_GAIN)
        self.scale = ReturnScale()
        self._kappa, self._clip_mode, self._backup = kappa, clip_mode, backup

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.output(features)
        return out

    def mean(self, prediction: Tensor) -> Tensor:
        return prediction.mean(-1)

    def risk(self, prediction: Tensor, alpha: float) -> Tensor:
        return cvar_from_quantiles(prediction, alpha)

    def mixture_risk(self, prediction: Tensor, alpha: float) -> Tensor:
        return mixture_cvar_from_quantiles(prediction, alpha)

    def quantile(self, prediction: Tensor, level: float) -> Tensor:
        return var_from_quantiles(prediction, level)

    def loss(self, prediction: Tensor, old: Tensor, targets: Tensor, clip_range: Tensor | float | None) -> ValueLoss:
        unclipped = self._regression(prediction, targets)
        if clip_range is None:
            return ValueLoss.plain(unclipped)
        clipped = clip_quantiles(prediction, old, clip_range, self._clip_mode)
        return ValueLoss(*larger_loss(unclipped, self._regression(clipped, targets)))

    def targets(self, returns: Tensor, rewards: Tensor, discounts: Tensor, successors: Tensor) -> Tensor:
        """The returns [T, N], or the equally likely values r + γ·q(s′) [T, N, K]."""
        return rewards.unsqueeze(-1) + discounts.unsqueeze(-1) * successors if self._backup else returns

    def update_statistics(self, returns: Tensor, valid: Tensor) -> None:
        self.scale.update_statistics(returns, valid)

    def rescale(self, factor: Tensor, offset: Tensor) -> None:
        rescale_layer(self.output, factor, offset)
        self.scale.rescale(factor, offset)

    def _regression(self, quantiles: Tensor, targets: Tensor) -> Tensor:
        """ρ with κ = kappa·std."""
        return huber_loss(quantiles, targets, self._kappa * self.scale.std if self._kappa else 0.0)
