"""A critic of the return, and beside it one of the cost."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.critics.base import Critic, ValueLoss


class WithCost(Critic):
    """Two critics of two quantities on the same features.

    A prediction [B, K + L] is that of the return, then that of the cost. All questions of the interface are about the
    return; the cost has its own. The losses are added. The clip range is in the unit of rewards, so predictions of the
    cost are not clipped.
    """

    def __init__(self, critic: Critic, cost: Critic) -> None:
        super().__init__()
        self.critic, self.cost = critic, cost
        self.n_outputs = critic.n_outputs + cost.n_outputs
        self.is_distributional, self.learns_whole_returns = critic.is_distributional, critic.learns_whole_returns
        # What `targets` of the first adds to [T, N], found out on nothing.
        none = torch.zeros(1, 1)
        self._target_shape = critic.targets(none, none, none, torch.zeros(1, 1, critic.n_outputs)).shape[2:]

    def forward(self, features: Tensor) -> Tensor:
        return torch.cat([self.critic(features), self.cost(features)], -1)

    def mean(self, prediction: Tensor) -> Tensor:
        return self.critic.mean(self._split(prediction)[0])

    def risk(self, prediction: Tensor, alpha: float) -> Tensor:
        return self.critic.risk(self._split(prediction)[0], alpha)

    def quantile(self, prediction: Tensor, level: float) -> Tensor:
        return self.critic.quantile(self._split(prediction)[0], level)

    def mean_cost(self, prediction: Tensor) -> Tensor:
        """Expected (discounted) cost from here on [...] of predictions [..., K + L], raw."""
        return self.cost.mean(self._split(prediction)[1])

    def loss(self, prediction: Tensor, old: Tensor, targets: Tensor, clip_range: Tensor | float | None) -> ValueLoss:
        (mine, its), (old_mine, old_its) = self._split(prediction), self._split(old)
        wanted = targets[:, :-1].reshape(-1, *self._target_shape)
        value = self.critic.loss(mine, old_mine, wanted, clip_range)
        cost = self.cost.loss(its, old_its, targets[:, -1], None).loss
        return value._replace(loss=value.loss + cost, unclipped=value.unclipped + cost, clipped=value.clipped + cost)

    def targets(self, returns: Tensor, rewards: Tensor, discounts: Tensor, successors: Tensor) -> Tensor:
        """Those of the return alone; `with_cost_targets` makes of them what `loss` takes."""
        return self.critic.targets(returns, rewards, discounts, self._split(successors)[0])

    def with_cost_targets(
        self, targets: Tensor, returns: Tensor, costs: Tensor, discounts: Tensor, successors: Tensor
    ) -> Tensor:
        """[T, N, M + 1]: the targets of the return, and those of the cost, whose returns and costs [T, N] these are."""
        own = self.cost.targets(returns, costs, discounts, self._split(successors)[1])
        return torch.cat([targets.reshape(*returns.shape, -1), own.unsqueeze(-1)], -1)

    def update_statistics(self, returns: Tensor, valid: Tensor) -> None:
        self.critic.update_statistics(returns, valid)

    def update_cost_statistics(self, returns: Tensor, valid: Tensor) -> None:
        """`update_statistics` for the discounted costs [T, N] of a rollout."""
        self.cost.update_statistics(returns, valid)

    def rescale(self, factor: Tensor, offset: Tensor) -> None:
        self.critic.rescale(factor, offset)

    def return_std(self) -> Tensor:
        return self.critic.return_std()

    def metrics(self, prediction: Tensor, returns: Tensor, valid: Tensor) -> dict[str, float]:
        return self.critic.metrics(self._split(prediction)[0], returns, valid)

    def heads(self) -> dict[str, nn.Module]:
        return self.critic.heads() | {"cost_critic": self.cost}

    def _split(self, prediction: Tensor) -> tuple[Tensor, Tensor]:
        first = self.critic.n_outputs
        return prediction[..., :first], prediction[..., first:]
