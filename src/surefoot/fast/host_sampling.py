"""Actions of a few rows at a time in numpy, whose calls cost far less than torch's; the distributions are the same.

Noise is drawn for a whole rollout at once. A family that is not known here is sampled by torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from surefoot.actions.categorical import CategoricalFamily, log_exponential
from surefoot.actions.diagonal_gaussian import LOG_STD_LIMIT, DiagonalGaussianFamily
from surefoot.actions.distribution import Array, Family
from surefoot.actions.factored import FactoredFamily
from surefoot.actions.head_tables import Plan
from surefoot.fast.choosing import FORBIDDEN, ChoiceTables, Chooser, Level, gumbel_max

CPU = torch.device("cpu")


class HostSampler(ABC):
    """Samples the actions of one family."""

    @abstractmethod
    def noise(self, n_steps: int, n_envs: int, generator: torch.Generator | None) -> Array:
        """What `sample` needs at random, float32 [T, N, ...]."""

    @abstractmethod
    def sample(self, params: Array, mask: Array | None, noise: Array) -> Array:
        """Stored actions [N, ...] from float32 rows and one row of `noise`."""

    def tables(self, mask_width: int) -> ChoiceTables | None:
        """What the kernel needs to sample under masks of so many flags (0: none); None if it cannot."""
        return None


class CategoricalSampler(HostSampler):
    """One choice among n."""

    def __init__(self, family: CategoricalFamily) -> None:
        self._n = family.n_outputs

    def noise(self, n_steps: int, n_envs: int, generator: torch.Generator | None) -> Array:
        return log_exponential((n_steps, n_envs, self._n), generator, CPU).numpy()

    def sample(self, params: Array, mask: Array | None, noise: Array) -> Array:
        return gumbel_max(params if mask is None else np.where(mask, params, FORBIDDEN), noise)

    def tables(self, mask_width: int) -> ChoiceTables:
        return ChoiceTables(np.array([self._n]), np.zeros(1, np.int64), None)


class GaussianSampler(HostSampler):
    """Independent normal variables."""

    def __init__(self, family: DiagonalGaussianFamily) -> None:
        self._n, self._offset = family.n_dims, family.log_std_offset
        self._low, self._high = family.log_std_bounds or (-LOG_STD_LIMIT, LOG_STD_LIMIT)

    def noise(self, n_steps: int, n_envs: int, generator: torch.Generator | None) -> Array:
        return torch.randn(n_steps, n_envs, self._n, generator=generator).numpy()

    def sample(self, params: Array, mask: Array | None, noise: Array) -> Array:
        assert mask is None, "a Box has no mask"
        mean, log_std = params[:, : self._n], params[:, self._n :]
        if self._offset is not None:
            log_std = log_std + np.float32(self._offset)
        drawn: Array = mean + np.exp(np.minimum(np.maximum(log_std, self._low), self._high)) * noise
        return drawn


class FactoredSampler(HostSampler):
    """Heads that are all choices."""

    def __init__(self, family: FactoredFamily) -> None:
        self._family = family
        self._choosers: dict[bool, Chooser] = {}

    def noise(self, n_steps: int, n_envs: int, generator: torch.Generator | None) -> Array:
        segments = self._family.plan(wide=False, device=CPU).segments
        shape = (n_steps, n_envs, *segments.padded.shape)
        log_noise: Array = log_exponential(shape, generator, CPU).numpy()
        log_noise += np.where(segments.is_real.numpy(), np.float32(0.0), np.float32(np.inf))  # never chosen
        return log_noise

    def sample(self, params: Array, mask: Array | None, noise: Array) -> Array:
        return self._chooser(self._family.is_conditional(mask))(params, mask, noise)

    def tables(self, mask_width: int) -> ChoiceTables | None:
        form = self._family.form
        wide = mask_width not in (0, form.flat_width)
        return None if wide else self._chooser(wide=False).tables(form.sizes)

    def _chooser(self, wide: bool) -> Chooser:
        if wide not in self._choosers:
            self._choosers[wide] = chooser_of(self._family.plan(wide, CPU))
        return self._choosers[wide]


def host_sampler(family: Family) -> HostSampler | None:
    """The sampler of a family; None for one that is sampled by torch."""
    if type(family) is CategoricalFamily:
        return CategoricalSampler(family)
    if type(family) is DiagonalGaussianFamily:
        return GaussianSampler(family)
    if type(family) is FactoredFamily and family.action_dtype == torch.int64:
        return FactoredSampler(family)
    return None


def chooser_of(plan: Plan) -> Chooser:
    """The tables of heads as numpy takes them."""
    dependence, padded = plan.dependence, plan.segments.padded.numpy()
    n_heads = len(padded)
    every = np.ones((1, n_heads), np.bool_)
    levels = [
        Level.of(
            np.flatnonzero(chosen),
            padded,
            plan.first_flag.numpy()[padded] if plan.wide else padded,
            plan.context_step.numpy()[padded] if plan.wide else np.zeros_like(padded),
            plan.context_head.numpy()[padded],
        )
        for chosen in (plan.levels.numpy() if plan.wide else every)
    ]
    number = np.zeros(n_heads, np.int64)
    number[dependence.controls.numpy()] = dependence.stride.numpy()
    return Chooser(levels, number, dependence.relevant.numpy()[:, :n_heads])
