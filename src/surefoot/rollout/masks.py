"""Masks of legal actions."""

from __future__ import annotations

import numpy as np

from surefoot.dists.interface import Family
from surefoot.errors import EnvError
from surefoot.spaces import Array


def require_legal(masks: Array, family: Family, step: int) -> None:
    """Raise and name the env if a row leaves no legal action (F01)."""
    for name, columns in family.mask_groups().items():
        empty = ~masks[:, columns].any(1)
        if empty.any():
            env = int(np.flatnonzero(empty)[0])
            head = f" for the head {name!r}" if name else ""
            raise EnvError(f"env {env} at step {step} has no legal action{head}: its action mask is all False")
