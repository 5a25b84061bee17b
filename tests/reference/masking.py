"""Softmax over the legal actions alone, and its entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence


def probabilities(logits: Sequence[float], mask: Sequence[bool]) -> list[float]:
    legal = [x for x, is_legal in zip(logits, mask, strict=True) if is_legal]
    top = max(legal)
    total = math.fsum(math.exp(x - top) for x in legal)
    return [math.exp(x - top) / total if ok else 0.0 for x, ok in zip(logits, mask, strict=True)]


def entropy(probs: Sequence[float]) -> float:
    return -math.fsum(p * math.log(p) for p in probs if p > 0)
