"""Choices drawn by the kernel, for the rows of a rollout one after the other."""

from __future__ import annotations

import numpy as np

from surefoot.fast.choosing import Array, Chooser
from surefoot.fast.kernel import Kernel


class CompiledChoice:
    """The same distribution, and the same choices from the same noise, as a `Chooser` of one level."""

    def __init__(
        self,
        kernel: Kernel,
        chooser: Chooser,
        sizes: tuple[int, ...],
        logits: Array,
        mask: Array | None,
        log_noise: Array,
        action: Array,
    ) -> None:
        """Heads of ``sizes``; storage [T, N, ...], contiguous: logits and noise of float32, flags, actions of int64."""
        n_choices = np.array(sizes, np.int64)
        active = None if chooser.active is None else np.ascontiguousarray(chooser.active, np.bool_)
        self._kept = (
            n_choices,
            chooser.number,
            active,
            logits,
            mask,
            log_noise,
            action,
        )  # the kernel has addresses alone
        self._choose = kernel.choose
        # Addresses are found once: asking an array for its own takes longer than to draw.
        self._logits, self._noise, self._action = (x.ctypes.data for x in (logits, log_noise, action))
        self._logits_step, self._noise_step, self._action_step = (x.strides[0] for x in (logits, log_noise, action))
        self._mask, self._mask_step = (0, 0) if mask is None else (mask.ctypes.data, mask.strides[0])
        self._width = logits.shape[2]
        self._counts = logits.shape[1], len(sizes), log_noise.shape[-1]
        self._tables = n_choices.ctypes.data, chooser.number.ctypes.data, None if active is None else active.ctypes.data

    def __call__(self, t: int) -> bool:
        """Write the actions of row t; False if some head of some env had no legal choice."""
        found: int = self._choose(
            self._logits + t * self._logits_step,
            self._width,
            self._mask + t * self._mask_step or None,
            self._noise + t * self._noise_step,
            self._action + t * self._action_step,
            *self._counts,
            *self._tables,
        )
        return bool(found)
