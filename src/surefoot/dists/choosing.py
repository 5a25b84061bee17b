"""Sampling of factored choices for a few rows at a time, as acting in environments needs it.

The same law as `Factored.sample`, in numpy: with eight rows, the time is that of calling operations, and numpy's calls
are the cheaper ones. Heads are padded to the largest, so that one call serves all of them. Every head is drawn once,
level by level: first those whose mask depends on no choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FORBIDDEN = np.float32(-1e30)
"""In place of the logits of illegal entries: exp gives 0, and differences do not overflow."""
TINY = np.finfo(np.float32).tiny


class Level(NamedTuple):
    """L heads that can be drawn at once; tables [L, n] have an entry for each choice of each."""

    heads: Array
    """[L] which heads they are."""
    column: Array
    """Where the logit of each choice stands; a head with fewer than n choices repeats its first."""
    surplus: Array | None
    """Added to the logits: FORBIDDEN for repetitions, else 0; None if nothing is repeated."""
    flag: Array
    """Where the flag of each choice stands in the mask, in context 0."""
    step: Array | None
    """How much farther it stands in the next context; None if there are none."""
    given: Array
    """The head that decides the context."""

    @classmethod
    def of(cls, heads: Array, column: Array, is_real: Array, flag: Array, step: Array, given: Array) -> Self:
        """Some of the ``heads`` of whole tables."""
        surplus = np.where(is_real[heads], np.float32(0.0), FORBIDDEN)
        return cls(
            heads,
            column[heads],
            surplus if surplus.any() else None,
            flag[heads],
            step[heads] if step[heads].any() else None,
            given[heads],
        )


class Chooser:
    """Draws the choices of all heads, and says their log-probabilities."""

    def __init__(self, levels: Sequence[Level], number: Array, relevant: Array) -> None:
        """``relevant`` [G, H] by number of the joint choice of the controls: choices [H] times ``number`` [H]."""
        self._levels, self._number = levels, number
        self._relevant = None if relevant.all() else relevant
        self._n_heads = relevant.shape[1]

    def __call__(self, logits: Array, mask: Array | None, log_noise: Array) -> tuple[Array, Array]:
        """Logits [N, S], mask [N, M] and ln of noise [N, H, n] ~ Exponential(1) -> choices and their ln p, [N, H]."""
        if len(self._levels) == 1:
            (level,) = self._levels
            z = logits if mask is None else np.where(mask, logits, FORBIDDEN)
            choice, log_prob = _draw(z.take(level.column, 1), log_noise, level)
        else:
            choice, log_prob = self._one_after_another(logits, mask, log_noise)
        if self._relevant is not None:
            relevant = self._relevant[choice @ self._number]
            choice *= relevant
            log_prob *= relevant
        return choice, log_prob

    def _one_after_another(self, logits: Array, mask: Array | None, log_noise: Array) -> tuple[Array, Array]:
        n = len(logits)
        rows = np.arange(n)[:, None, None]
        choice, log_prob = np.empty((n, self._n_heads), np.int64), np.empty((n, self._n_heads), np.float32)
        for level in self._levels:
            z = logits.take(level.column, 1)
            if mask is not None:
                flag = level.flag if level.step is None else level.flag + level.step * choice[:, level.given]
                z = np.where(mask[rows, flag], z, FORBIDDEN)
            choice[:, level.heads], log_prob[:, level.heads] = _draw(z, log_noise[:, level.heads], level)
        return choice, log_prob


def _draw(z: Array, log_noise: Array, level: Level) -> tuple[Array, Array]:
    """One choice of each head by the Gumbel-max trick, and its ln p; logits z, which are overwritten, and noise are
    [N, L, n]."""
    if level.surplus is not None:
        z += level.surplus
    z -= np.maximum.reduce(z, 2, keepdims=True)
    choice = (z - log_noise).argmax(2)
    log_total = np.log(np.add.reduce(np.exp(z), 2))
    return choice, z.take(_firsts(z.shape) + choice) - log_total


@lru_cache
def _firsts(shape: tuple[int, int, int]) -> Array:
    """Where each row of the last axis begins in a flattened array."""
    return np.arange(0, math.prod(shape), shape[2]).reshape(shape[:2])
