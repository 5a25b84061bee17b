"""Sampling of factored choices for a small batch, as acting in environments needs it.

The same distribution as `Factored.sample`, in numpy: with eight rows, the time is that of calling operations, and
numpy's calls are the cheaper ones. Heads are padded to the largest, so that one call serves all of them; noise of +inf
keeps the padding from being drawn. Every head is drawn once, level by level: first those whose mask depends on no
choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FORBIDDEN = np.float32(-1e30)
"""In place of the logits of illegal entries: no noise makes up for it, and differences do not overflow."""


class Level(NamedTuple):
    """L heads that can be drawn at once; tables [L, n] have an entry for each choice of each."""

    heads: Array
    """[L] which heads they are."""
    column: Array
    """Where the logit of each choice stands; a head with fewer than n choices repeats its first."""
    flag: Array
    """Where the flag of each choice stands in the mask, for parent action 0."""
    step: Array | None
    """How much farther it stands for the next parent action; None if the mask depends on none."""
    parent: Array
    """The head whose choice is the parent action."""

    @classmethod
    def of(cls, heads: Array, column: Array, flag: Array, step: Array, parent: Array) -> Self:
        """Some of the ``heads`` of whole tables."""
        steps = step[heads] if step[heads].any() else None
        return cls(heads, column[heads], flag[heads], steps, parent[heads])


class Chooser:
    """Draws the choices of all heads."""

    def __init__(self, levels: Sequence[Level], number: Array, active: Array) -> None:
        """``active`` [G, H] by number of the joint choice of the parent heads: choices [H] times ``number`` [H]."""
        self._levels, self.number = levels, number
        self.active = None if active.all() else active
        self._n_heads = active.shape[1]

    def __call__(self, logits: Array, mask: Array | None, log_noise: Array) -> Array:
        """Logits [N, S], mask [N, M] and ln of noise [N, H, n] ~ Exponential(1) -> choices [N, H]."""
        if len(self._levels) == 1:
            (level,) = self._levels
            z = logits if mask is None else np.where(mask, logits, FORBIDDEN)
            choice = gumbel_max(z.take(level.column, 1), log_noise)
        else:
            choice = self._one_after_another(logits, mask, log_noise)
        if self.active is not None:
            choice *= self.active[choice @ self.number]
        return choice

    def _one_after_another(self, logits: Array, mask: Array | None, log_noise: Array) -> Array:
        n = len(logits)
        rows = np.arange(n)[:, None, None]
        choice = np.empty((n, self._n_heads), np.int64)
        for level in self._levels:
            z = logits.take(level.column, 1)
            if mask is not None:
                flag = level.flag if level.step is None else level.flag + level.step * choice[:, level.parent]
                z = np.where(mask[rows, flag], z, FORBIDDEN)
            choice[:, level.heads] = gumbel_max(z, log_noise[:, level.heads])
        return choice


def gumbel_max(logits: Array, log_noise: Array) -> Array:
    """One choice from each row [..., n] of logits by the Gumbel-max trick."""
    # The largest logit is taken off first: beside a large number the noise would lose its digits.
    shifted = logits - np.maximum.reduce(logits, -1, keepdims=True)
    shifted -= log_noise
    choice: Array = shifted.argmax(-1)
    return choice
