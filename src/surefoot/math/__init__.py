"""Pure tensor functions: losses, estimators, schedules. They know tensors only."""

from surefoot.math import (
    advantages,
    categorical,
    entropy_decay,
    explained,
    kl,
    masking,
    moments,
    quantile,
    returns,
    risk,
    schedules,
    surrogate,
    value_clip,
)

__all__ = [
    "advantages",
    "categorical",
    "entropy_decay",
    "explained",
    "kl",
    "masking",
    "moments",
    "quantile",
    "returns",
    "risk",
    "schedules",
    "surrogate",
    "value_clip",
]
