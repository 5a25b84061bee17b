"""Several independent choices at once: the policy for a MultiDiscrete space."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from surefoot.actions.categorical import Categorical
from surefoot.actions.distribution import Array, Distribution, Family
from surefoot.errors import UnsupportedSpaceError


class MultiDiscrete(Distribution):
    """K independent categoricals: `each` is bound to [B, K, n]; here their terms are summed over K."""

    def __init__(self, each: Categorical) -> None:
        self.each = each

    def sample(self, generator: torch.Generator | None) -> Tensor:
        return self.each.sample(generator)

    def mode(self) -> Tensor:
        return self.each.mode()

    def log_prob(self, action: Tensor) -> Tensor:
        return self.each.log_prob(action).sum(-1)

    def entropy(self) -> Tensor:
        return self.each.entropy().sum(-1)

    def kl(self, new: Self) -> Tensor:
        return self.each.kl(new.each).sum(-1)


class MultiDiscreteFamily(Family):
    """Stores K indices from 0; network outputs and masks are the sub-actions' entries one after another.

    Sub-actions of unequal size are padded to the largest with entries never legal, so one call serves all.
    """

    def __init__(self, space: spaces.MultiDiscrete) -> None:
        sizes = space.nvec.reshape(-1).astype(np.int64)
        if sizes.size == 0:
            raise UnsupportedSpaceError(f"{space}: the action space is empty.")
        self._shape = space.shape
        self._dtype = space.dtype
        self._start = space.start.reshape(-1)
        self._shifts = bool(self._start.any())
        self._largest = int(sizes.max())
        self._padded = bool((sizes != self._largest).any())
        first = np.cumsum(sizes) - sizes
        column = np.arange(self._largest)
        real = column < sizes[:, None]
        # [K, n] each: whether the entry exists, and where it stands in the flat row
        self._real = torch.from_numpy(real)
        self._index = torch.from_numpy(np.where(real, first[:, None] + column, 0))
        self._columns = {str(k): slice(int(a), int(a + n)) for k, (a, n) in enumerate(zip(first, sizes, strict=True))}
        self.n_outputs = int(sizes.sum())
        self.free = None
        self.action_shape = (int(sizes.size),)
        self.action_dtype = torch.int64
        self.mask_width = self.n_outputs

    def bind(self, params: Tensor, mask: Tensor | None = None) -> MultiDiscrete:
        if not self._padded:
            shape = (*params.shape[:-1], *self.action_shape, self._largest)
            return MultiDiscrete(Categorical(params.reshape(shape), None if mask is None else mask.reshape(shape)))
        index = self._index.to(params.device)
        real = self._real.to(params.device)
        logits = params[..., index]
        legal = real.expand(logits.shape) if mask is None else mask.bool()[..., index] & real
        return MultiDiscrete(Categorical(logits, legal))

    def mask_groups(self) -> dict[str, slice]:
        return self._columns

    def to_env(self, action: Array) -> Array:
        shifted = action + self._start if self._shifts else action.copy()
        return shifted.astype(self._dtype, copy=False).reshape(-1, *self._shape)
