"""Slow, obvious twins of `surefoot.actions.categorical`: one choice at a time, in Python numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence


def softmax(logits: Sequence[float], legal: Sequence[bool]) -> list[float]:
    """Probabilities over the legal entries."""
    top = max(x for x, is_legal in zip(logits, legal, strict=True) if is_legal)
    weights = [math.exp(x - top) if is_legal else 0.0 for x, is_legal in zip(logits, legal, strict=True)]
    return [w / sum(weights) for w in weights]


def entropy(p: Sequence[float]) -> float:
    """−Σ p ln p."""
    return -sum(x * math.log(x) for x in p if x > 0)


def kl(p: Sequence[float], q: Sequence[float]) -> float:
    """Σ p ln(p/q)."""
    return sum(x * math.log(x / y) for x, y in zip(p, q, strict=True) if x > 0)
