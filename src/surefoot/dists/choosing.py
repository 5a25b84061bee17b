"""Sampling of factored choices for a few rows at a time, as acting in environments needs it.

The same law as `Factored.sample`, in numpy: with eight rows, the time is that of calling operations, and numpy's calls
are the cheaper ones; `reduceat` also does each segment of a row in one. Every head is drawn once, level by level: first
those whose mask depends on no choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FORBIDDEN = np.float32(-1e30)
"""In place of the logits of illegal entries: exp gives 0, and differences do not overflow."""
TINY = np.finfo(np.float32).tiny


class Level(NamedTuple):
    """Heads that can be drawn at once, and their columns among all S choices. Slices where these follow each other."""

    heads: slice | Array
    columns: slice | Array
    first: Array
    """Where each head begins among the columns."""
    owner: Array
    """Which of the heads each column belongs to."""
    choice: Array
    """Which choice of its head each column is."""
    flag: Any
    """Where the flag of each column stands in the mask, in context 0: a slice or an array; with a step, an array."""
    step: Array | None
    """How much farther it stands in the next context; None if there are none."""
    given: Array
    """The head that decides the context."""


class Chooser:
    """Draws the choices of all heads, and says their log-probabilities."""

    def __init__(self, levels: Sequence[Level], controls: Array, stride: Array, relevant: Array) -> None:
        """``relevant`` [G, H] by number of the joint choice of the ``controls``, which the ``stride`` makes."""
        self._levels, self._controls, self._stride = levels, controls, stride
        self._relevant = None if relevant.all() else relevant
        self._n_heads = relevant.shape[1]

    def __call__(self, logits: Array, mask: Array | None, log_noise: Array) -> tuple[Array, Array]:
        """Logits [N, S], mask [N, M] and ln of noise [N, S] ~ Exponential(1) -> choices and their ln p, [N, H]."""
        n = len(logits)
        rows = np.arange(n)[:, None]
        choice, log_prob = np.empty((n, self._n_heads), np.int64), np.empty((n, self._n_heads), np.float32)
        for level in self._levels:
            z = logits[:, level.columns]
            if mask is not None:
                if level.step is None:
                    flags = mask[:, level.flag]
                else:
                    flags = mask[rows, level.flag + level.step * choice[:, level.given]]
                z = np.where(flags, z, FORBIDDEN)
            choice[:, level.heads], log_prob[:, level.heads] = _draw(z, log_noise[:, level.columns], level, rows)
        if self._relevant is not None:
            relevant = self._relevant[choice[:, self._controls] @ self._stride]
            choice *= relevant
            log_prob *= relevant
        return choice, log_prob


def as_slice(index: Array) -> slice | Array:
    """The same columns as a slice, if they follow each other."""
    first, n = int(index[0]), len(index)
    return slice(first, first + n) if (index == np.arange(first, first + n)).all() else index


def _draw(z: Array, log_noise: Array, level: Level, rows: Array) -> tuple[Array, Array]:
    """One choice of each head by the Gumbel-max trick, and its ln p."""
    shifted = z - np.maximum.reduceat(z, level.first, axis=1)[:, level.owner]
    total = np.add.reduceat(np.exp(shifted), level.first, axis=1)
    score = shifted - log_noise
    wins = score == np.maximum.reduceat(score, level.first, axis=1)[:, level.owner]
    # The first winner: two equal scores must not make a third choice.
    drawn = np.minimum.reduceat(np.where(wins, level.choice, len(level.choice)), level.first, axis=1)
    return drawn, shifted[rows, level.first + drawn] - np.log(total)
