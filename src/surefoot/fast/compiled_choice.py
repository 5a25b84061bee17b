"""Choices drawn by the kernel, for the rows of a rollout one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.fast.choosing import ChoiceTables
from surefoot.fast.kernel import Kernel

Array = NDArray[Any]


class CompiledChoice:
    """The same distribution, and the same choices from the same noise, as `gumbel_max` and `Chooser`."""

    def __init__(
        self, kernel: Kernel, tables: ChoiceTables, logits: Array, mask: Array | None, log_noise: Array, action: Array
    ) -> None:
        """Storage [T, N, ...], contiguous: logits and noise of float32, flags, and actions of int64."""
        sizes, number = (np.ascontiguousarray(x, np.int64) for x in (tables.sizes, tables.number))
        active = None if tables.active is None else np.ascontiguousarray(tables.active, np.bool_)
        self._kept = sizes, number, active, logits, mask, log_noise, action  # the kernel only has their addresses
        self._choose = kernel.choose
        # Addresses are found once: asking an array for its own takes longer than to draw.
        self._logits, self._noise, self._action = (x.ctypes.data for x in (logits, log_noise, action))
        self._logits_step, self._noise_step, self._action_step = (x.strides[0] for x in (logits, log_noise, action))
        self._mask, self._mask_step = (0, 0) if mask is None else (mask.ctypes.data, mask.strides[0])
        widest = log_noise.shape[-1]
        self._sizes = logits.shape[1], len(sizes), widest
        self._width = logits.shape[2]
        self._tables = sizes.ctypes.data, number.ctypes.data, None if active is None else active.ctypes.data

    def __call__(self, t: int) -> bool:
        """Write the actions of row t; False if some head of some env had no legal choice."""
        found: int = self._choose(
            self._logits + t * self._logits_step,
            self._width,
            self._mask + t * self._mask_step or None,
            self._noise + t * self._noise_step,
            self._action + t * self._action_step,
            *self._sizes,
            *self._tables,
        )
        return bool(found)
