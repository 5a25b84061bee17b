"""Cuts a rollout into the sequences that a memory replays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Sequence(NamedTuple):
    """Consecutive transitions of one env and one episode, the first ``burn_in`` of which only refresh the state."""

    env: int
    begin: int
    length: int
    burn_in: int = 0


def cut(
    starts: NDArray[np.bool_], valid: NDArray[np.bool_], max_length: int | None = None, burn_in: int = 0
) -> list[Sequence]:
    """All transitions [T, N] as sequences.

    A new one begins at an episode's start, after a row that is no transition, and every ``max_length`` steps; one that
    was cut for its length is preceded by up to ``burn_in`` steps of the same episode.
    """
    n_steps, n_envs = valid.shape
    found = []
    for env in range(n_envs):
        t = 0
        while t < n_steps:
            if not valid[t, env]:
                t += 1
                continue
            end = t + 1
            while end < n_steps and valid[end, env] and not starts[end, env]:
                end += 1
            size = max_length or end - t
            for begin in range(t, end, size):
                before = min(burn_in, begin - t)
                found.append(Sequence(env, begin - before, min(size, end - begin) + before, before))
            t = end
    return found


def pack(sequences: list[Sequence], n_groups: int, generator: np.random.Generator) -> list[list[Sequence]]:
    """Shuffled groups of about equally many steps: the longest first, each to the group that has least."""
    order = generator.permutation(len(sequences))
    longest_first = sorted((sequences[i] for i in order), key=lambda sequence: -sequence.length)
    groups: list[list[Sequence]] = [[] for _ in range(min(n_groups, len(sequences)))]
    sizes = np.zeros(len(groups))
    for sequence in longest_first:
        smallest = int(sizes.argmin())
        groups[smallest].append(sequence)
        sizes[smallest] += sequence.length
    return [groups[i] for i in generator.permutation(len(groups))]
