"""Independent coins: the policy for a MultiBinary space."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from surefoot.actions.distribution import Array, Distribution, Family, refuse_mask
from surefoot.math.kl import bernoulli_kl


class Bernoulli(Distribution):
    """P(a_d = 1) = sigmoid(logits_d), with logits [B, D]."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def sample(self, generator: torch.Generator | None) -> Tensor:
        uniform = torch.rand(self.logits.shape, generator=generator, device=self.logits.device)
        return (uniform < self.logits.sigmoid()).long()

    def mode(self) -> Tensor:
        return (self.logits > 0).long()

    def log_prob(self, action: Tensor) -> Tensor:
        # ln σ(l) for a 1 and ln σ(−l) for a 0, without subtracting large numbers.
        return logsigmoid(self.logits * (2 * action - 1)).sum(-1)

    def entropy(self) -> Tensor:
        """Σ_d softplus(−|l|) + |l|·σ(−|l|), which keeps its digits where the coin is nearly certain."""
        size = self.logits.abs()
        return (softplus(-size) + size * torch.sigmoid(-size)).sum(-1)

    def kl(self, new: Self) -> Tensor:
        return bernoulli_kl(self.logits, new.logits)


class BernoulliFamily(Family):
    """Stores bits [D], flattened if the space has several axes."""

    def __init__(self, space: spaces.MultiBinary) -> None:
        self._shape = space.shape
        self._dtype = space.dtype
        self.n_outputs = int(np.prod(self._shape))
        self.action_shape = (self.n_outputs,)
        self.action_dtype = torch.int64
        self.mask_width = 0

    @property
    def max_entropy(self) -> float:
        return self.n_outputs * math.log(2.0)

    def bind(self, params: Tensor, mask: Tensor | None = None) -> Bernoulli:
        refuse_mask(self, mask)
        return Bernoulli(params)

    def to_env(self, action: Array) -> Array:
        return action.astype(self._dtype).reshape(-1, *self._shape)
