"""Random numbers that are a function of a key, an episode and a place: nothing to keep but two integers an account.

Each is SplitMix64's output function (Steele, Lea and Flood 2014) of a counter, so that a saved run goes on exactly, and
account i of a batch draws what it would draw alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
GAMMA, FIRST, SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
PLACES = 8
"""Room for draws in one episode."""


def keys_of(seed: int | Sequence[int] | None, n: int) -> Keys:
    """[n] keys: of one seed for all, or of one for each; row 0 of a seed is what that seed gives alone."""
    if seed is None or isinstance(seed, int):
        return np.asarray(np.random.SeedSequence(seed).generate_state(n, np.uint64), np.uint64)
    return np.array([np.random.SeedSequence(int(s)).generate_state(1, np.uint64)[0] for s in seed], np.uint64)


def uniform(keys: Keys, episodes: NDArray[np.int64], place: int) -> NDArray[np.float64]:
    """[n] numbers in [0, 1)."""
    counter = (episodes * PLACES + place + 1).astype(np.uint64)
    z = keys + counter * GAMMA
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    z = z ^ (z >> np.uint64(31))
    return np.asarray((z >> np.uint64(11)).astype(np.float64) * 2.0**-53)
