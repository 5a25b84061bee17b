"""Observations that are codes: Discrete, MultiDiscrete, MultiBinary. They become one-hot, so each must be known."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.spaces import Array, Leaf


def code_bounds(leaf: Leaf) -> tuple[Any, Any] | None:
    """Smallest and largest code of a leaf, or None if it holds no codes."""
    space = leaf.space
    if isinstance(space, spaces.Discrete):
        return space.start, space.start + space.n - 1
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return (0, 1) if isinstance(space, spaces.MultiBinary) else None


def unknown_code(array: Array, bounds: tuple[Any, Any]) -> str | None:
    """Why an array (of one env, or of all with a leading axis) is not made of known codes, or None if it is."""
    low, high = bounds
    if array.dtype.kind not in "biu":
        return f"has dtype {array.dtype}, codes are integers"
    if ((array < low) | (array > high)).any():
        return f"is {array.tolist()}, its codes run from {np.asarray(low).tolist()} to {np.asarray(high).tolist()}"
    return None
