"""Two critics side by side."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.critics.base import Critic, ValueLoss


class Twin(Critic):
    """Two critics of the same kind; the more pessimistic one is believed (C02, C08).

    A prediction [B, 2K] is that of the first, then that of the second. Each learns against its own targets, clipped
    around its own old prediction, and the losses are averaged. ``views`` says which features each of them sees.
    """

    def __init__(self, first: Critic, second: Critic, views: tuple[slice, slice]) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.n_outputs = first.n_outputs + second.n_outputs
        self.is_distributional = first.is_distributional
        self._views = views

    def forward(self, features: Tensor) -> Tensor:
        one, two = self._views
        return torch.cat([self.first(features[:, one]), self.second(features[:, two])], -1)

    def mean(self, prediction: Tensor) -> Tensor:
        one, two = self._split(prediction)
        return torch.minimum(self.first.mean(one), self.second.mean(two))

    def risk(self, prediction: Tensor, alpha: float) -> Tensor:
        one, two = self._split(prediction)
        return torch.minimum(self.first.risk(one, alpha), self.second.risk(two, alpha))

    def mixture_risk(self, prediction: Tensor, alpha: float) -> Tensor:
        one, two = self._split(prediction)
        return torch.minimum(self.first.mixture_risk(one, alpha), self.second.mixture_risk(two, alpha))

    def quantile(self, prediction: Tensor, level: float) -> Tensor:
        one, two = self._split(prediction)
        return torch.minimum(self.first.quantile(one, level), self.second.quantile(two, level))

    def loss(self, prediction: Tensor, old: Tensor, targets: Tensor, clip_range: Tensor | float | None) -> ValueLoss:
        (one, two), (old_one, old_two) = self._split(prediction), self._split(old)
        losses = (
            self.first.loss(one, old_one, targets[:, 0], clip_range),
            self.second.loss(two, old_two, targets[:, 1], clip_range),
        )
        if clip_range is None:
            return ValueLoss.plain(0.5 * (losses[0].loss + losses[1].loss))
        return ValueLoss(*(0.5 * (a.to(one.dtype) + b.to(one.dtype)) for a, b in zip(*losses, strict=True)))

    def targets(self, returns: Tensor, rewards: Tensor, discounts: Tensor, successors: Tensor) -> Tensor:
        """Those of both, [T, N, 2] or [T, N, 2, ...]: a backup is from a critic's own successor."""
        one, two = self._split(successors)
        return torch.stack(
            [
                self.first.targets(returns, rewards, discounts, one),
                self.second.targets(returns, rewards, discounts, two),
            ],
            2,
        )

    def update_statistics(self, returns: Tensor, valid: Tensor) -> None:
        self.first.update_statistics(returns, valid)
        self.second.update_statistics(returns, valid)

    def rescale(self, factor: Tensor, offset: Tensor) -> None:
        self.first.rescale(factor, offset)
        self.second.rescale(factor, offset)

    def return_std(self) -> Tensor:
        """That of the first: both see the same returns."""
        return self.first.return_std()

    def metrics(self, prediction: Tensor, returns: Tensor, valid: Tensor) -> dict[str, float]:
        """Means of what both measure, and how far they are apart."""
        one, two = self._split(prediction)
        first, second = self.first.metrics(one, returns, valid), self.second.metrics(two, returns, valid)
        gap = (self.first.mean(one) - self.second.mean(two)).abs()[valid].mean()
        return {"train/critic_gap": float(gap)} | {key: 0.5 * (first[key] + second[key]) for key in first}

    def parts(self) -> dict[str, nn.Module]:
        return {"critic1": self.first, "critic2": self.second}

    def _split(self, prediction: Tensor) -> tuple[Tensor, Tensor]:
        first = self.first.n_outputs
        return prediction[..., :first], prediction[..., first:]
