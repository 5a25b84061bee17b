"""One choice among n: the policy for a Discrete space, with or without a mask of legal actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import log_softmax

from surefoot.actions.distribution import Array, Distribution, Family
from surefoot.math.kl import categorical_kl
from surefoot.math.masking import masked_entropy, masked_log_softmax

LARGEST_LOG_NOISE = 4.0
"""Above ln(−ln 2⁻⁵³), which the smallest uniform number above 0 gives."""


class Categorical(Distribution):
    """P(a = i) = softmax(logits)_i over the legal actions, with logits and mask [B, ..., n] (F01).

    Axes between B and n are kept, so `MultiDiscrete` can bind all its sub-actions at once.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self._mask = mask
        self.log_probs = log_softmax(logits, -1) if mask is None else masked_log_softmax(logits, mask)

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """argmax(ln p − ln E), E ~ Exponential(1): the Gumbel-max trick."""
        log_probs = self.log_probs
        return (log_probs - log_exponential(log_probs.shape, generator, log_probs.device)).argmax(-1)

    def mode(self) -> Tensor:
        return self.log_probs.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        return self.log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        if self._mask is not None:
            return masked_entropy(self.log_probs, self._mask)
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def kl(self, new: Self) -> Tensor:
        """Enormous if `new` forbids an action that `self` allows."""
        return categorical_kl(self.log_probs, new.log_probs)


def log_exponential(shape: Sequence[int], generator: torch.Generator | None, device: torch.device) -> Tensor:
    """ln E of independent E ~ Exponential(1), finite, in float32 whatever the logits are.

    E = −ln U, which for a whole rollout takes half as long as `Tensor.exponential_`; from float64, since noise of few
    digits would favour some actions. U may be 0 but not 1, so that E is above 0 (and wins against no illegal action)
    but may be infinite.
    """
    noise = torch.empty(shape, dtype=torch.float64, device=device).uniform_(generator=generator)
    return noise.log_().neg_().to(torch.float32).log_().clamp_(max=LARGEST_LOG_NOISE)


class CategoricalFamily(Family):
    """Stores the index 0 … n − 1; the env receives it shifted by the space's `start`."""

    def __init__(self, space: spaces.Discrete) -> None:
        self._start = int(space.start)
        self._dtype = space.dtype
        self.n_outputs = int(space.n)
        self.free = None
        self.action_shape = ()
        self.action_dtype = torch.int64
        self.mask_width = self.n_outputs

    def bind(self, params: Tensor, mask: Tensor | None = None) -> Categorical:
        return Categorical(params, mask)

    def to_env(self, action: Array) -> Array:
        return (action + self._start).astype(self._dtype, copy=False)
