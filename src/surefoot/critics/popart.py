"""A critic in the unit of its returns: whatever their size, what the network predicts has mean 0 and std 1."""

from __future__ import annotations

from torch import Tensor

from surefoot.critics.base import Critic, ValueLoss
from surefoot.critics.scale import ReturnScale


class PopArt(Critic):
    """Normalizes the returns of any critic, and keeps its raw predictions when the statistics move (A09).

        w′ = w·σ/σ′,   b′ = (σ·b + μ − μ′)/σ′      for every row of the output layer

    The first returns that are not all 0 only set the unit: a network that has learned nothing has nothing to keep, and
    learns best from predictions of size 1. Until then σ = 0 and all raw predictions are 0, so that the outputs of an
    untrained network enter neither the first returns nor the first advantages, however small the rewards are (A07).
    The loss and the clip range are in units of σ. Source: van Hasselt et al. 2016, https://arxiv.org/abs/1602.07714.
    """

    def __init__(self, inner: Critic) -> None:
        super().__init__()
        self.inner = inner
        self.n_outputs, self.is_distributional = inner.n_outputs, inner.is_distributional
        self.scale = ReturnScale()
        self.scale.std.zero_()

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.inner(features)
        return out

    def mean(self, prediction: Tensor) -> Tensor:
        return self.scale.to_raw(self.inner.mean(prediction))

    def risk(self, prediction: Tensor, alpha: float) -> Tensor:
        return self.scale.to_raw(self.inner.risk(prediction, alpha))

    def mixture_risk(self, prediction: Tensor, alpha: float) -> Tensor:
        return self.scale.to_raw(self.inner.mixture_risk(prediction, alpha))

    def quantile(self, prediction: Tensor, level: float) -> Tensor:
        return self.scale.to_raw(self.inner.quantile(prediction, level))

    def loss(self, prediction: Tensor, old: Tensor, targets: Tensor, clip_range: Tensor | float | None) -> ValueLoss:
        return self.inner.loss(prediction, old, targets, clip_range)

    def targets(self, returns: Tensor, rewards: Tensor, discounts: Tensor, successors: Tensor) -> Tensor:
        """From r + γ·(σx′ + μ) = σx + μ follows x = (r + (γ − 1)·μ)/σ + γ·x′: in this unit the reward is the first."""
        mean = self.scale.mean.to(rewards.device)
        unit_rewards = self.scale.to_unit(rewards + discounts * mean)
        return self.inner.targets(self.scale.to_unit(returns), unit_rewards, discounts, successors)

    def update_statistics(self, returns: Tensor, valid: Tensor) -> None:
        mean, std = self.scale.mean.clone(), self.scale.std.clone()
        self.scale.update_statistics(returns, valid)
        if bool(std):
            self.inner.rescale(std / self.scale.std, (mean - self.scale.mean) / self.scale.std)
        self.inner.update_statistics(self.scale.to_unit(returns), valid)

    def rescale(self, factor: Tensor, offset: Tensor) -> None:
        self.scale.rescale(factor, offset)

    def return_std(self) -> Tensor:
        return self.scale.std

    def metrics(self, prediction: Tensor, returns: Tensor, valid: Tensor) -> dict[str, float]:
        own = {"train/popart_mean": float(self.scale.mean), "train/popart_std": float(self.scale.std)}
        return own | self.inner.metrics(prediction, self.scale.to_unit(returns), valid)
