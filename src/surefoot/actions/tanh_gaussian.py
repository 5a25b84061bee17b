"""A normal variable squashed into a bounded Box by tanh."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import softplus

from surefoot.actions.box import BoundedBoxCodec
from surefoot.actions.diagonal_gaussian import DiagonalGaussian, DiagonalGaussianFamily
from surefoot.actions.distribution import Array, Distribution, Family, refuse_mask

N_NODES = 32
"""Quadrature nodes. Entropy error per dimension: below 1e-7 up to σ = 1, 3e-3 at σ = 3, 1.5 % at most."""


def log_tanh_slope(x: Tensor) -> Tensor:
    """ln(d tanh(x)/dx) = 2(ln 2 − x − softplus(−2x)), exact where 1 − tanh² has rounded to 0; any shape."""
    return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class TanhGaussian(Distribution):
    """a = centre + half_width·tanh(x), x ~ N; stored actions are x [B, D], so that saturation loses nothing.

    `log_half_widths` is Σ_d ln(half_width_d); `nodes` and `weights` [K] integrate against N(0, 1).
    """

    def __init__(self, base: DiagonalGaussian, log_half_widths: float, nodes: Tensor, weights: Tensor) -> None:
        self.base = base
        self._log_half_widths = log_half_widths
        self._nodes = nodes
        self._weights = weights

    def sample(self, generator: torch.Generator | None) -> Tensor:
        return self.base.sample(generator)

    def mode(self) -> Tensor:
        """The most likely x, which is also the env action's median.

        The mode of the env action's own density is no use: for σ² > ½ it sits near the bounds even at mean 0.
        """
        return self.base.mode()

    def log_prob(self, action: Tensor) -> Tensor:
        return self.base.log_prob(action) - log_tanh_slope(action).sum(-1) - self._log_half_widths

    def entropy(self) -> Tensor:
        """H(x) + E[ln f′(x)], the expectation by Gauss–Hermite quadrature: no noise, and a gradient."""
        x = self.base.mean.unsqueeze(-1) + self.base.std.unsqueeze(-1) * self._nodes
        expected_log_slope = (log_tanh_slope(x) * self._weights).sum((-1, -2))
        return self.base.entropy() + expected_log_slope + self._log_half_widths

    def kl(self, new: Self) -> Tensor:
        """KL of the normals: a divergence does not change under one invertible map of both sides."""
        return self.base.kl(new.base)


class TanhGaussianFamily(Family):
    """Stores the action before tanh [D]; the env receives it squashed into the box."""

    def __init__(self, space: spaces.Box, log_std_init: float = 0.0, state_dependent_std: bool = False) -> None:
        self._codec = BoundedBoxCodec(space)
        unit = spaces.Box(-1.0, 1.0, (self._codec.n_dims,))  # the box of tanh(x), whose units are none
        self._normal = DiagonalGaussianFamily(unit, log_std_init, state_dependent_std)
        self._log_half_widths = self._codec.log_volume - self._codec.n_dims * math.log(2.0)
        nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
        self._nodes = torch.tensor(nodes, dtype=torch.float32)
        self._weights = torch.tensor(weights / weights.sum(), dtype=torch.float32)
        self.n_outputs = self._normal.n_outputs
        self.state_independent = self._normal.state_independent
        self.action_shape = self._normal.action_shape
        self.action_dtype = self._normal.action_dtype
        self.mask_width = 0

    def bound_std(self, low: float, high: float) -> bool:
        return self._normal.bound_std(low, high)

    @property
    def max_entropy(self) -> float:
        return self._codec.log_volume

    def bind(self, params: Tensor, mask: Tensor | None = None) -> TanhGaussian:
        refuse_mask(self, mask)
        base = self._normal.bind(params)
        return TanhGaussian(base, self._log_half_widths, self._nodes.to(params), self._weights.to(params))

    def to_env(self, action: Array) -> Array:
        squashed = np.tanh(action.astype(np.float64))
        return self._codec.from_unit(0.5 + 0.5 * squashed)
