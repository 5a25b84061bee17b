"""A rollout is cut into sequences that a memory may replay: whole, within one episode, balanced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from surefoot.rollout.sequences import Sequence, cut, pack

Flags = NDArray[np.bool_]


def column(*flags: int) -> Flags:
    return np.array(flags, bool)[:, None]


def test_by_hand() -> None:
    """Steps 0 to 2 go on from before, row 3 is no transition, an episode starts at 4 and another at 6."""
    starts, valid = column(0, 0, 0, 0, 1, 0, 1), column(1, 1, 1, 0, 1, 1, 1)
    assert cut(starts, valid) == [Sequence(0, 0, 3), Sequence(0, 4, 2), Sequence(0, 6, 1)]


def test_long_ones_are_cut_and_preceded_by_steps_of_the_same_episode() -> None:
    starts, valid = column(0, 0, 0, 0, 0, 1, 0, 0), np.ones((8, 1), bool)
    assert cut(starts, valid, max_length=2, burn_in=3) == [
        Sequence(0, 0, 2, 0),
        Sequence(0, 0, 4, 2),
        Sequence(0, 1, 4, 3),
        Sequence(0, 5, 2, 0),
        Sequence(0, 5, 3, 2),
    ]


@st.composite
def rollouts(draw: Any) -> tuple[Flags, Flags]:
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 3)))
    starts, valid = (
        np.array(draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])), bool)
        for _ in range(2)
    )
    return starts.reshape(shape), valid.reshape(shape)


@given(rollouts(), st.one_of(st.none(), st.integers(2, 5)), st.integers(0, 4))
def test_every_transition_is_in_one_sequence_and_no_sequence_in_two_episodes(
    rollout: tuple[Flags, Flags], max_length: int | None, burn_in: int
) -> None:
    starts, valid = rollout
    seen = np.zeros(valid.shape, int)
    for env, begin, length, before in cut(starts, valid, max_length, burn_in):
        rows = slice(begin, begin + length)
        assert valid[rows, env].all()
        assert not starts[begin + 1 : begin + length, env].any()
        assert before <= burn_in
        assert before < length <= (max_length or len(valid)) + before
        seen[begin + before : begin + length, env] += 1
    assert np.array_equal(seen, valid.astype(int))


@pytest.mark.parametrize("n_groups", [1, 3, 40])
def test_groups_hold_every_sequence_once_and_about_equally_many_steps(n_groups: int) -> None:
    sequences = [Sequence(0, begin, length) for begin, length in enumerate([1, 2, 3, 5, 8, 13, 21] * 5)]
    groups = pack(sequences, n_groups, np.random.default_rng(0))
    assert len(groups) == min(n_groups, len(sequences))
    assert sorted(sequence for group in groups for sequence in group) == sorted(sequences)
    sizes = [sum(sequence.length for sequence in group) for group in groups]
    assert max(sizes) - min(sizes) <= max(sequence.length for sequence in sequences)


def test_groups_differ_from_epoch_to_epoch() -> None:
    sequences = [Sequence(0, 2 * i, 2) for i in range(12)]
    generator = np.random.default_rng(0)
    assert pack(sequences, 3, generator) != pack(sequences, 3, generator)
    assert pack(sequences, 3, np.random.default_rng(1)) == pack(sequences, 3, np.random.default_rng(1))
