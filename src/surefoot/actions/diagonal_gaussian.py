"""Independent normal variables: the usual policy for a Box."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from surefoot.actions.box import BoxCodec
from surefoot.actions.distribution import Array, Distribution, Family, OutputUnits, refuse_mask
from surefoot.math.bounded import inward_clamp
from surefoot.math.kl import gaussian_kl

LOG_STD_LIMIT = 20.0
"""log σ is kept within ±20: far outside any useful policy, and ((x − μ)/σ)² stays finite in float32."""

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class DiagonalGaussian(Distribution):
    """N(mean, diag(exp(log_std))²) with mean and log_std [B, D], in units whose logarithms are ``log_unit`` in the mean
    over the dimensions; densities are of the action outside, without units."""

    def __init__(self, mean: Tensor, log_std: Tensor, log_unit: float = 0.0) -> None:
        self._constant = _HALF_LOG_2PI + log_unit
        self.mean = mean
        self.log_std = log_std.clamp(-LOG_STD_LIMIT, LOG_STD_LIMIT)
        self.std = self.log_std.exp()

    def sample(self, generator: torch.Generator | None) -> Tensor:
        noise = torch.randn(self.mean.shape, generator=generator, dtype=self.mean.dtype, device=self.mean.device)
        return self.mean + self.std * noise

    def mode(self) -> Tensor:
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        z = (action - self.mean) / self.std
        return (-0.5 * z.square() - self.log_std - self._constant).sum(-1)

    def entropy(self) -> Tensor:
        return (self.log_std + (0.5 + self._constant)).sum(-1)

    def kl(self, new: Self) -> Tensor:
        return gaussian_kl(self.mean, self.log_std, new.mean, new.log_std)


class DiagonalGaussianFamily(Family):
    """Stores the unbounded action [D] in units of the box: the env receives centre + half-width · stored, clipped to
    the box, so that a box of any place and size is like [−1, 1] (P14). Dimensions whose bounds give no unit are stored
    as they are (`BoxCodec.half_width`).

    log σ, in the same units, is one state-independent parameter per dimension that starts at `log_std_init`; with
    `state_dependent_std` the network gives it instead, as an offset from `log_std_init`.
    """

    def __init__(self, space: spaces.Box, log_std_init: float = 0.0, state_dependent_std: bool = False) -> None:
        self._codec = BoxCodec(space)
        self._log_unit = float(np.log(self._codec.half_width).mean())
        self.log_std_offset = log_std_init if state_dependent_std else None
        self.n_dims = self._codec.n_dims
        self.n_outputs = 2 * self.n_dims if state_dependent_std else self.n_dims
        self.state_independent = None if state_dependent_std else torch.full((self.n_dims,), log_std_init)
        self.action_shape = (self.n_dims,)
        self.action_dtype = torch.float32
        self.mask_width = 0
        self.log_std_bounds: tuple[float, float] | None = None

    def bound_std(self, low: float, high: float) -> bool:
        self.log_std_bounds = (math.log(low) if low > 0 else -LOG_STD_LIMIT, min(math.log(high), LOG_STD_LIMIT))
        return True

    @property
    def max_entropy(self) -> float:
        widest = LOG_STD_LIMIT if self.log_std_bounds is None else self.log_std_bounds[1]
        return self.n_dims * (widest + 0.5 + _HALF_LOG_2PI + self._log_unit)

    def bind(self, params: Tensor, mask: Tensor | None = None) -> DiagonalGaussian:
        refuse_mask(self, mask)
        mean, log_std = params.chunk(2, dim=-1)
        if self.log_std_offset is not None:
            log_std = log_std + self.log_std_offset
        if self.log_std_bounds is not None:
            log_std = inward_clamp(log_std, *self.log_std_bounds)
        return DiagonalGaussian(mean, log_std, self._log_unit)

    def is_clipped(self, action: Tensor) -> Tensor:
        return torch.from_numpy(self._codec.is_outside(action.cpu().numpy()))

    def received(self, params: Tensor) -> Tensor:
        low, high = (torch.from_numpy(bound).to(params) for bound in self._codec.bounds_in_box_units())
        return torch.cat([params[..., : self.n_dims].clamp(low, high), params[..., self.n_dims :]], -1)

    def std(self, params: Tensor) -> Tensor:
        return self.bind(params).std * torch.from_numpy(self._codec.half_width).to(params)

    def output_units(self) -> OutputUnits:
        half_width, centre = torch.from_numpy(self._codec.half_width), torch.from_numpy(self._codec.centre)
        log_half_width = half_width.log()
        if self.state_independent is not None:
            return OutputUnits(half_width, centre, log_half_width)
        ones = torch.ones_like(half_width)
        return OutputUnits(torch.cat([half_width, ones]), torch.cat([centre, log_half_width]), half_width[:0])

    def to_env(self, action: Array) -> Array:
        return self._codec.from_box_units(action)
