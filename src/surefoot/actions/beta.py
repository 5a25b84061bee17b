"""Independent Beta variables: a policy that lives inside a bounded Box and needs neither clip nor squash."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import softplus

from surefoot.actions.box import BoundedBoxCodec
from surefoot.actions.distribution import Array, Distribution, Family, refuse_mask
from surefoot.math.kl import beta_kl

END = 1e-6
"""Stored actions keep this distance from 0 and 1, where ln x and ln(1 − x) end."""


class Beta(Distribution):
    """Beta(1 + softplus(raw_alpha), 1 + softplus(raw_beta)) scaled to the box; raw parameters [B, D].

    Both concentrations exceed 1, so the density has one peak and is 0 at the bounds (Chou et al. 2017,
    https://proceedings.mlr.press/v70/chou17a.html). Stored actions are in (0, 1).
    """

    def __init__(self, raw_alpha: Tensor, raw_beta: Tensor, log_volume: float) -> None:
        self._dtype = raw_alpha.dtype
        # float64 inside: the formulas subtract numbers of size α ln α; float32 would leave noise in ratios.
        self._alpha_excess = softplus(raw_alpha.double())
        self._beta_excess = softplus(raw_beta.double())
        self.alpha = 1.0 + self._alpha_excess
        self.beta = 1.0 + self._beta_excess
        self._log_volume = log_volume

    def sample(self, generator: torch.Generator | None) -> Tensor:
        up = torch._standard_gamma(self.alpha.detach(), generator=generator)
        down = torch._standard_gamma(self.beta.detach(), generator=generator)
        return self._stored(up / (up + down))

    def mode(self) -> Tensor:
        tiny = torch.finfo(torch.float64).tiny  # both excesses may have underflowed: the density is then flat
        return self._stored((self._alpha_excess + tiny) / (self._alpha_excess + self._beta_excess + 2.0 * tiny))

    def log_prob(self, action: Tensor) -> Tensor:
        x = action.double()
        density = self._alpha_excess * x.log() + self._beta_excess * torch.log1p(-x) - self._log_norm()
        return (density.sum(-1) - self._log_volume).to(self._dtype)

    def entropy(self) -> Tensor:
        """Σ_d ln B(α, β) − (α − 1)ψ(α) − (β − 1)ψ(β) + (α + β − 2)ψ(α + β), plus ln(volume)."""
        both = torch.digamma(self.alpha + self.beta)
        mean_log_density = (
            self._alpha_excess * (torch.digamma(self.alpha) - both)
            + self._beta_excess * (torch.digamma(self.beta) - both)
            - self._log_norm()
        )
        return (self._log_volume - mean_log_density.sum(-1)).to(self._dtype)

    def kl(self, new: Self) -> Tensor:
        return beta_kl(self.alpha, self.beta, new.alpha, new.beta).to(self._dtype)

    def _log_norm(self) -> Tensor:
        """ln B(α, β) [B, D]."""
        return torch.lgamma(self.alpha) + torch.lgamma(self.beta) - torch.lgamma(self.alpha + self.beta)

    def _stored(self, x: Tensor) -> Tensor:
        return x.to(self._dtype).clamp(END, 1.0 - END)


class BetaFamily(Family):
    """Stores fractions of the box's width [D] in (0, 1)."""

    def __init__(self, space: spaces.Box) -> None:
        self._codec = BoundedBoxCodec(space)
        self.n_outputs = 2 * self._codec.n_dims
        self.action_shape = (self._codec.n_dims,)
        self.action_dtype = torch.float32
        self.mask_width = 0
        self.inactive_action = 0.5

    @property
    def max_entropy(self) -> float:
        return self._codec.log_volume

    def bind(self, params: Tensor, mask: Tensor | None = None) -> Beta:
        refuse_mask(self, mask)
        raw_alpha, raw_beta = params.chunk(2, dim=-1)
        return Beta(raw_alpha, raw_beta, self._codec.log_volume)

    def to_env(self, action: Array) -> Array:
        return self._codec.from_unit(action.astype(np.float64))
