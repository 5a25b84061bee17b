"""A critic of the return, and beside it one of a second quantity: a cost, or what an episode falls short by."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.critics.base import Critic, ValueLoss


@dataclass(frozen=True)
class Auxiliary:
    """A signal of every step, the expected sum of which a critic of its own learns."""

    name: str
    """What it is a sum of: ``cost``, ``shortfall``."""
    discount: float
    """Of the sum."""
    ends_with_truncation: bool = False
    """Whether a truncated episode's sum is complete, so that nothing is bootstrapped beyond it."""
    n_context: int = 0
    """Columns of the episode's context that its critic sees beside the features; see `vector.episode_context`."""


class WithAuxiliary(Critic):
    """Two critics of two quantities.

    A prediction [B, K + L] is that of the return, then that of the auxiliary quantity. Features [B, F + C] end with the
    episode's context, which the critic of the return does not see: it stays the critic of the observation alone. All
    questions of the interface are about the return; the auxiliary quantity has its own. The losses are added. The clip
    range is in the unit of rewards, so auxiliary predictions are not clipped.
    """

    def __init__(self, critic: Critic, auxiliary: Critic, spec: Auxiliary) -> None:
        super().__init__()
        self.critic, self.auxiliary, self.spec = critic, auxiliary, spec
        self.n_outputs = critic.n_outputs + auxiliary.n_outputs
        self.is_distributional, self.learns_whole_returns = critic.is_distributional, critic.learns_whole_returns
        # What `targets` of the first adds to [T, N], found out on nothing.
        none = torch.zeros(1, 1)
        self._target_shape = critic.targets(none, none, none, torch.zeros(1, 1, critic.n_outputs)).shape[2:]

    def forward(self, features: Tensor) -> Tensor:
        plain = features[:, : features.shape[1] - self.spec.n_context]
        return torch.cat([self.critic(plain), self.auxiliary(features)], -1)

    def mean(self, prediction: Tensor) -> Tensor:
        return self.critic.mean(self._split(prediction)[0])

    def risk(self, prediction: Tensor, alpha: float) -> Tensor:
        return self.critic.risk(self._split(prediction)[0], alpha)

    def mixture_risk(self, prediction: Tensor, alpha: float) -> Tensor:
        return self.critic.mixture_risk(self._split(prediction)[0], alpha)

    def quantile(self, prediction: Tensor, level: float) -> Tensor:
        return self.critic.quantile(self._split(prediction)[0], level)

    def mean_auxiliary(self, prediction: Tensor) -> Tensor:
        """Expected sum of the auxiliary quantity from here on [...] of predictions [..., K + L], raw."""
        return self.auxiliary.mean(self._split(prediction)[1])

    def loss(self, prediction: Tensor, old: Tensor, targets: Tensor, clip_range: Tensor | float | None) -> ValueLoss:
        (mine, its), (old_mine, old_its) = self._split(prediction), self._split(old)
        wanted = targets[:, :-1].reshape(-1, *self._target_shape)
        value = self.critic.loss(mine, old_mine, wanted, clip_range)
        own = self.auxiliary.loss(its, old_its, targets[:, -1], None).loss
        return value._replace(loss=value.loss + own, unclipped=value.unclipped + own, clipped=value.clipped + own)

    def targets(self, returns: Tensor, rewards: Tensor, discounts: Tensor, successors: Tensor) -> Tensor:
        """Those of the return alone; `with_auxiliary_targets` makes of them what `loss` takes."""
        return self.critic.targets(returns, rewards, discounts, self._split(successors)[0])

    def with_auxiliary_targets(self, targets: Tensor, returns: Tensor) -> Tensor:
        """[T, N, M + 1]: the targets of the return, and those of the auxiliary quantity, whose returns [T, N] these
        are."""
        none = torch.zeros_like(returns)
        own = self.auxiliary.targets(returns, none, none, none.unsqueeze(-1))
        return torch.cat([targets.reshape(*returns.shape, -1), own.unsqueeze(-1)], -1)

    def update_statistics(self, returns: Tensor, valid: Tensor) -> None:
        self.critic.update_statistics(returns, valid)

    def update_auxiliary_statistics(self, returns: Tensor, valid: Tensor) -> None:
        """`update_statistics` for the auxiliary returns [T, N] of a rollout."""
        self.auxiliary.update_statistics(returns, valid)

    def rescale(self, factor: Tensor, offset: Tensor) -> None:
        self.critic.rescale(factor, offset)

    def return_std(self) -> Tensor:
        return self.critic.return_std()

    def metrics(self, prediction: Tensor, returns: Tensor, valid: Tensor) -> dict[str, float]:
        return self.critic.metrics(self._split(prediction)[0], returns, valid)

    def parts(self) -> dict[str, nn.Module]:
        return self.critic.parts() | {f"{self.spec.name}_critic": self.auxiliary}

    def _split(self, prediction: Tensor) -> tuple[Tensor, Tensor]:
        first = self.critic.n_outputs
        return prediction[..., :first], prediction[..., first:]
