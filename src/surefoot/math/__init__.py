"""Pure tensor functions: losses, estimators, schedules. They know tensors only."""

from surefoot.math import (
    advantages,
    entropy_decay,
    explained,
    kl,
    moments,
    returns,
    schedules,
    surrogate,
    value_clip,
)

__all__ = [
    "advantages",
    "entropy_decay",
    "explained",
    "kl",
    "moments",
    "returns",
    "schedules",
    "surrogate",
    "value_clip",
]
