"""Actions of a small batch in numpy, whose calls cost far less than torch's; the distributions are the same.

Noise is drawn for a whole rollout at once. A family that is not known here is sampled by torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from surefoot.actions.categorical import log_exponential
from surefoot.actions.diagonal_gaussian import LOG_STD_LIMIT, DiagonalGaussianFamily
from surefoot.actions.distribution import Array, Family
from surefoot.actions.factored import FactoredFamily
from surefoot.actions.head_tables import HeadTables
from surefoot.fast.choosing import Chooser, Level
from surefoot.fast.compiled_choice import CompiledChoice
from surefoot.fast.kernel import Kernel

CPU = torch.device("cpu")


class HostSampler(ABC):
    """Samples the actions of one family."""

    @abstractmethod
    def noise(self, n_steps: int, n_envs: int, generator: torch.Generator | None) -> Array:
        """What `sample` needs at random, float32 [T, N, ...]."""

    @abstractmethod
    def sample(self, params: Array, mask: Array | None, noise: Array) -> Array:
        """Stored actions [N, ...] from float32 rows and one row of `noise`."""


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


class ChoiceSampler(HostSampler):
    """Heads that are all choices."""

    def __init__(self, family: FactoredFamily) -> None:
        self._family = family
        self._choosers: dict[bool, Chooser] = {}

    def noise(self, n_steps: int, n_envs: int, generator: torch.Generator | None) -> Array:
        segments = self._family.tables(conditional=False, device=CPU).segments
        shape = (n_steps, n_envs, *segments.padded.shape)
        log_noise: Array = log_exponential(shape, generator, CPU).numpy()
        log_noise += np.where(segments.is_real.numpy(), np.float32(0.0), np.float32(np.inf))  # never chosen
        return log_noise

    def sample(self, params: Array, mask: Array | None, noise: Array) -> Array:
        return self._chooser(self._family.is_conditional(mask))(params, mask, noise)

    def compiled(
        self, kernel: Kernel, logits: Array, mask: Array | None, noise: Array, action: Array
    ) -> CompiledChoice | None:
        """The kernel's drawing on storage [T, N, ...]; None where masks depend on parent actions."""
        if self._family.is_conditional(mask):
            return None
        return CompiledChoice(kernel, self._chooser(False), self._family.form.sizes, logits, mask, noise, action)

    def _chooser(self, conditional: bool) -> Chooser:
        if conditional not in self._choosers:
            self._choosers[conditional] = chooser_of(self._family.tables(conditional, CPU))
        return self._choosers[conditional]


def host_sampler(family: Family) -> HostSampler | None:
    """The sampler of a family; None for one that is sampled by torch."""
    if type(family) is DiagonalGaussianFamily:
        return GaussianSampler(family)
    if type(family) is FactoredFamily and family.action_dtype == torch.int64:
        return ChoiceSampler(family)
    return None


def chooser_of(tables: HeadTables) -> Chooser:
    """The tables of heads as numpy takes them."""
    graph, padded = tables.graph, tables.segments.padded.numpy()
    n_heads, conditional = len(padded), tables.conditional
    levels = [
        Level.of(
            np.flatnonzero(chosen),
            padded,
            tables.first_flag.numpy()[padded] if conditional else padded,
            tables.flag_step.numpy()[padded] if conditional else np.zeros_like(padded),
            tables.flag_parent.numpy()[padded],
        )
        for chosen in (tables.levels.numpy() if conditional else np.ones((1, n_heads), np.bool_))
    ]
    number = np.zeros(n_heads, np.int64)
    number[graph.parents.numpy()] = graph.stride.numpy()
    return Chooser(levels, number, graph.active.numpy()[:, :n_heads])
