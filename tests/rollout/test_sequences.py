"""A rollout is cut into sequences that a memory may replay: whole, within one episode, balanced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from surefoot.rollout.sequences import Sequences, cut, pack

Flags = NDArray[np.bool_]


def rows(sequences: Sequences) -> list[tuple[int, ...]]:
    """(env, begin, length, burn-in) of each."""
    return list(zip(*(x.tolist() for x in sequences), strict=True))


def column(*flags: int) -> Flags:
    return np.array(flags, bool)[:, None]


def test_by_hand() -> None:
    """Steps 0 to 2 go on from before, row 3 is no transition, an episode starts at 4 and another at 6."""
    starts, valid = column(0, 0, 0, 0, 1, 0, 1), column(1, 1, 1, 0, 1, 1, 1)
    assert rows(cut(starts, valid)) == [(0, 0, 3, 0), (0, 4, 2, 0), (0, 6, 1, 0)]


def test_long_ones_are_cut_and_preceded_by_steps_of_the_same_episode() -> None:
    starts, valid = column(0, 0, 0, 0, 0, 1, 0, 0), np.ones((8, 1), bool)
    assert rows(cut(starts, valid, max_length=2, burn_in=3)) == [
        (0, 0, 2, 0),
        (0, 0, 4, 2),
        (0, 1, 4, 3),
        (0, 5, 2, 0),
        (0, 5, 3, 2),
    ]


def test_places_of_rows() -> None:
    sequences = cut(np.array([[0, 1], [1, 0], [0, 0]], bool), np.ones((3, 2), bool))
    assert sequences.first(2).tolist() == [0, 2, 1]
    assert sequences.rows(2).tolist() == [0, 2, 4, 1, 3, 5]
    assert sequences.counts().tolist() == [True] * 6
    shorter = cut(np.array([[1], [0], [0], [0]], bool), np.ones((4, 1), bool), 2, 1)
    assert shorter.rows(1).tolist() == [0, 1, 1, 2, 3]
    assert shorter.counts().tolist() == [True, True, False, True, True]


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
    for env, begin, length, before in rows(cut(starts, valid, max_length, burn_in)):
        assert valid[begin : begin + length, env].all()
        assert not starts[begin + 1 : begin + length, env].any()
        assert before <= burn_in
        assert before < length <= (max_length or len(valid)) + before
        seen[begin + before : begin + length, env] += 1
    assert np.array_equal(seen, valid.astype(int))


@given(rollouts(), st.one_of(st.none(), st.integers(2, 5)))
def test_a_sequence_is_as_long_as_it_may_be(rollout: tuple[Flags, Flags], max_length: int | None) -> None:
    """The next one of the same env begins at a start, after a gap, or because this one has the maximum."""
    starts, valid = rollout
    found = rows(cut(starts, valid, max_length))
    assert found == sorted(found)
    for env, begin, length, _ in found:
        end = begin + length
        goes_on = end < len(valid) and valid[end, env] and not starts[end, env]
        assert not goes_on or length == max_length


@pytest.mark.parametrize("n_groups", [1, 3, 40])
def test_groups_hold_every_sequence_once_and_about_equally_many_steps(n_groups: int) -> None:
    lengths = np.array([1, 2, 3, 5, 8, 13, 21] * 5)
    groups = pack(lengths, n_groups, np.random.default_rng(0))
    assert len(groups) == min(n_groups, len(lengths))
    assert np.array_equal(np.sort(np.concatenate(groups)), np.arange(len(lengths)))
    sizes = [lengths[group].sum() for group in groups]
    assert max(sizes) - min(sizes) <= lengths.max()


def test_groups_differ_from_epoch_to_epoch() -> None:
    lengths, generator = np.full(12, 2), np.random.default_rng(0)

    def groups(generator: np.random.Generator) -> list[list[int]]:
        return [group.tolist() for group in pack(lengths, 3, generator)]

    assert groups(generator) != groups(generator)
    assert groups(np.random.default_rng(1)) == groups(np.random.default_rng(1))
