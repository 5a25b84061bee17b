"""Cuts a rollout into the sequences that a memory replays."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Sequences(NamedTuple):
    """Each is consecutive transitions of one env and one episode, the first ``burn_in`` of which only refresh the
    state; all [S]."""

    env: NDArray[np.int64]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    burn_in: NDArray[np.int64]

    def take(self, which: NDArray[np.int64]) -> Sequences:
        """Some of them, in the order given."""
        return Sequences(*(x[which] for x in self))

    def first(self, n_envs: int) -> NDArray[np.int64]:
        """Flat place t·N + env of the first row of each."""
        return self.begin * n_envs + self.env

    def rows(self, n_envs: int) -> NDArray[np.int64]:
        """Flat places of all their rows, one sequence after the other."""
        before = np.cumsum(self.length) - self.length
        shift = np.repeat(self.first(n_envs) - before * n_envs, self.length)
        places: NDArray[np.int64] = np.arange(len(shift)) * n_envs + shift
        return places

    def counts(self) -> NDArray[np.bool_]:
        """Of all their rows, whether they do more than refresh the state."""
        before = np.cumsum(self.length) - self.length
        return np.arange(self.length.sum()) >= np.repeat(before + self.burn_in, self.length)


def cut(
    starts: NDArray[np.bool_], valid: NDArray[np.bool_], max_length: int | None = None, burn_in: int = 0
) -> Sequences:
    """All transitions [T, N] as sequences.

    A new one begins at an episode's start, after a row that is no transition, and every ``max_length`` steps; one that
    was cut for its length is preceded by up to ``burn_in`` steps of the same episode.
    """
    n_steps = len(valid)
    begins = starts.copy()
    begins[0] = True
    begins[1:] |= ~valid[:-1]
    begins &= valid
    # Env by env: an episode's transitions follow each other.
    place = np.flatnonzero(begins.T)
    episode = np.cumsum(begins.T)[valid.T.ravel()] - 1
    whole = np.bincount(episode, minlength=len(place))
    size = max_length or n_steps
    pieces = -(-whole // size)
    done = size * (np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces))
    place, whole = np.repeat(place, pieces), np.repeat(whole, pieces)
    before = np.minimum(burn_in, done)
    return Sequences(place // n_steps, place % n_steps + done - before, np.minimum(size, whole - done) + before, before)


def pack(lengths: NDArray[np.int64], n_groups: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
    """Shuffled groups of sequences, by number, of about equally many steps: the longest first, each to the group that
    has least."""
    order = generator.permutation(len(lengths))
    order = order[np.argsort(-lengths[order], kind="stable")]
    groups: list[list[int]] = [[] for _ in range(min(n_groups, len(lengths)))]
    least = [(0, i) for i in range(len(groups))]
    for sequence, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        steps, group = least[0]
        groups[group].append(sequence)
        heapq.heapreplace(least, (steps + length, group))
    return [np.array(groups[i]) for i in generator.permutation(len(groups))]
