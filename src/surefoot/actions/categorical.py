"""Choices among n: the one softmax that every action of choices goes through, with or without a mask."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from surefoot.math.kl import categorical_kl
from surefoot.math.masking import masked_entropy, masked_log_softmax

LARGEST_LOG_NOISE = 4.0
"""Above ln(−ln 2⁻⁵³), which the smallest uniform number above 0 gives."""


class Categoricals:
    """H choices side by side: P(a_h = i) = softmax(logits_h)_i over the legal entries (F01).

    Logits and mask are [..., H, n]; a choice with fewer than n entries is padded with entries that are never legal.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self._mask = mask
        self.log_probs = log_softmax(logits, -1) if mask is None else masked_log_softmax(logits, mask)

    def draw(self, log_noise: Tensor | None) -> Tensor:
        """Choices [..., H]: argmax(ln p − ln E) with ``log_noise`` ln E, E ~ Exponential(1), of the shape of the logits
        (the Gumbel-max trick); the most likely ones without it."""
        return (self.log_probs if log_noise is None else self.log_probs - log_noise).argmax(-1)

    def log_prob(self, choice: Tensor) -> Tensor:
        """ln p of choices [..., H]."""
        return self.log_probs.gather(-1, choice.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """In nats, [..., H]."""
        if self._mask is not None:
            return masked_entropy(self.log_probs, self._mask)
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def kl(self, new: Categoricals) -> Tensor:
        """KL(self ‖ new) [..., H]; enormous if `new` forbids an entry that `self` allows."""
        return categorical_kl(self.log_probs, new.log_probs)


def log_exponential(shape: Sequence[int], generator: torch.Generator | None, device: torch.device) -> Tensor:
    """ln E of independent E ~ Exponential(1), finite, in float32 whatever the logits are.

    E = −ln U, which for a whole rollout takes half as long as `Tensor.exponential_`; from float64, since noise of few
    digits would favour some actions. U may be 0 but not 1, so that E is above 0 (and wins against no illegal action)
    but may be infinite.
    """
    noise = torch.empty(shape, dtype=torch.float64, device=device).uniform_(generator=generator)
    return noise.log_().neg_().to(torch.float32).log_().clamp_(max=LARGEST_LOG_NOISE)
