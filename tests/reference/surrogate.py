"""The clipped objective, one sample at a time, in plain arithmetic."""

from __future__ import annotations

import math


def ratio(log_prob: float, old_log_prob: float, bound: str) -> float:
    d = log_prob - old_log_prob
    bounded = max(-20.0, min(20.0, d)) if bound == "clamp" else 20.0 * math.tanh(d / 20.0)
    return math.exp(bounded)


def loss(r: float, advantage: float, clip_range: float, dual_clip: float | None) -> float:
    if advantage >= 0.0:
        return -min(r, 1.0 + clip_range) * advantage
    weight = max(r, 1.0 - clip_range)
    if dual_clip is not None:
        weight = min(weight, dual_clip)
    return -weight * advantage
