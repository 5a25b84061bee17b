"""What a critic is: features in, a prediction out, and all that can be asked of a prediction.

A prediction is a tensor [B, K]: one mean (K = 1), N quantiles, or N logits over atoms. It is stored in the rollout
as it is, so that clipping compares a critic with its own old output.

Two units meet here. *Raw* is the unit of the (normalized) rewards: `mean`, `risk`, `quantile`, `update_statistics` and
`metrics` speak it, and `targets` is given it. What the network predicts may be scaled further (PopArt); only the critic
itself knows that unit. What `targets` gives is in the unit and form that `loss` of the same critic takes, and means
nothing to anyone else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn


class ValueLoss(NamedTuple):
    """Per-sample value loss [B] and what value clipping did to it."""

    loss: Tensor
    """What is minimised: the larger of the two below, or the first if clipping is off."""
    unclipped: Tensor
    clipped: Tensor
    active: Tensor
    """1 where the clipped loss is the larger one, so that clipping changed the sample's gradient."""

    @staticmethod
    def plain(loss: Tensor) -> ValueLoss:
        """Of a critic that does not clip."""
        return ValueLoss(loss, loss, loss, torch.zeros_like(loss))


class Critic(nn.Module, ABC):
    """Interface of all critics."""

    n_outputs: int
    """K, the width of a prediction."""
    is_distributional: bool = False
    """Whether it predicts more than means."""
    learns_whole_returns: bool = False
    """Whether `targets` wants returns with λ = 1 instead of ``ppo.gae_lambda``."""

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor:
        """Features [B, F] -> prediction [B, K]."""

    @abstractmethod
    def mean(self, prediction: Tensor) -> Tensor:
        """Expected return [...] of predictions [..., K], raw; the V of GAE."""

    @abstractmethod
    def risk(self, prediction: Tensor, alpha: float) -> Tensor:
        """CVaR_alpha of the return [...], raw: the mean of its worst ``alpha`` share."""

    @abstractmethod
    def mixture_risk(self, prediction: Tensor, alpha: float) -> Tensor:
        """CVaR_alpha of the return if each of the states of predictions [M, K] is equally likely, raw, 0-dim.

        It is the CVaR of the mixture of their distributions, not the mean of their CVaRs (R05)."""

    @abstractmethod
    def quantile(self, prediction: Tensor, level: float) -> Tensor:
        """What the return does not exceed with probability ``level`` [...], raw; VaR at that level."""

    @abstractmethod
    def loss(self, prediction: Tensor, old: Tensor, targets: Tensor, clip_range: Tensor | float | None) -> ValueLoss:
        """Per-sample loss against `targets`; with ``clip_range`` the prediction is clipped around ``old`` (C01)."""

    @abstractmethod
    def rescale(self, factor: Tensor, offset: Tensor) -> None:
        """From now on answer ``factor``·y + ``offset`` wherever the answer was the return y; both 0-dim."""

    def targets(self, returns: Tensor, rewards: Tensor, discounts: Tensor, successors: Tensor) -> Tensor:
        """What to learn, as `loss` takes it: [T, N] or [T, N, ...].

        ``returns`` [T, N] are the λ-returns, or the whole ones for a critic that learns those; ``discounts`` [T, N] is
        γ, or 0 where the episode terminated; ``successors`` [T, N, K] predicts the true successors. The default are the
        returns.
        """
        del rewards, discounts, successors
        return returns

    def update_statistics(self, returns: Tensor, valid: Tensor) -> None:
        """Take in the statistics of a rollout's returns [T, N], raw.

        Called once before the first update, when this may place the predictions of a critic that has learned nothing
        yet; then once after each update, when it must not change what the critic has learned to answer (A09).
        """

    def return_std(self) -> Tensor:
        """Running standard deviation of the returns, raw, 0-dim, if the critic's unit is that; otherwise 0."""
        return torch.zeros(())

    def metrics(self, prediction: Tensor, returns: Tensor, valid: Tensor) -> dict[str, float]:
        """What the critic wants logged about a rollout, by log key; predictions [T, N, K], returns [T, N] raw."""
        del prediction, returns, valid
        return {}

    def parts(self) -> dict[str, nn.Module]:
        """The modules whose gradient norms are reported apart, by name; together all parameters of the critic."""
        return {"critic": self}
