"""Between stored choices and the numbers, shape and dtype of a Discrete or MultiDiscrete space."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from surefoot.actions.distribution import Array


class ChoiceCodec:
    """Writes choices [N, K], counted from 0, into a space that may count from another number."""

    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete) -> None:
        self._start = np.asarray(space.start).reshape(-1)
        self._shifts = bool(self._start.any())
        self._shape: tuple[int, ...] = space.shape or ()
        self._dtype = space.dtype

    def to_env(self, choice: Array) -> Array:
        """Env actions [N, *space.shape], which share no memory with ``choice``."""
        shifted = choice + self._start if self._shifts else choice
        return shifted.astype(self._dtype, copy=not self._shifts).reshape(-1, *self._shape)
