"""Categorical actions of which some are illegal (F01). Masks are bool [..., K], True = legal."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_log_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Log-probabilities over the legal actions, [..., K] -> [..., K].

    An illegal action gets the most negative finite number of the dtype: its probability is exactly 0, its
    logit (whatever it holds, NaN included) has no influence and gets no gradient, and nothing is infinite,
    also in float16 and bfloat16. A single legal action has log-probability 0. A row without any legal action
    is a caller's error; here it gives the same stand-in everywhere.
    """
    legal = mask.bool()
    lowest = torch.finfo(logits.dtype).min
    log_probs = torch.log_softmax(torch.where(legal, logits, lowest), dim=-1)
    # A legal action that is hopelessly unlikely may underflow to −inf in half precision.
    return torch.where(legal, log_probs.clamp(min=lowest), lowest)


def masked_entropy(log_probs: Tensor, mask: Tensor) -> Tensor:
    """H = −Σ_legal p·log p in nats, [..., K] -> [...]. 0 with one legal action."""
    # 0 stands in where p = 0: the term p·log p is 0 there, with gradient 0.
    counts = mask.bool() & (log_probs > torch.finfo(log_probs.dtype).min)
    safe = torch.where(counts, log_probs, 0.0)
    return -(torch.where(counts, torch.exp(safe), 0.0) * safe).sum(-1)
