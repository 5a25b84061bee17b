"""Sums over episodes that lie across rollouts."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.math.episodes import OpenSums, broadcast_to_steps, sum_episodes


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def marks(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.bool)[:, None]


ALL = marks(1, 1, 1, 1)


def test_two_episodes_by_hand() -> None:
    """γ = ½. First episode: 4, 4 + ½·2 = 5. Second: 1, 1 + ½·8 = 5."""
    totals, after = sum_episodes(column(4, 2, 1, 8), marks(1, 0, 1, 0), ALL, 0.5, OpenSums.empty(1))
    assert totals[:, 0].tolist() == [4, 5, 1, 5]
    assert after.total.tolist() == [5]
    assert after.length.tolist() == [2]


def test_an_open_episode_goes_on() -> None:
    """Two steps worth 10 came before; the next counts ¼."""
    before = OpenSums(torch.tensor([10.0], dtype=torch.float64), torch.tensor([2.0], dtype=torch.float64))
    totals, _ = sum_episodes(column(4, 4, 7, 7), marks(0, 0, 1, 0), ALL, 0.5, before)
    assert totals[:, 0].tolist() == [11, 11.5, 7, 10.5]


def test_a_lost_episode_leaves_nothing_behind() -> None:
    """The row in which it was lost is no step; a new episode starts after it."""
    start, valid = marks(1, 0, 1, 0), marks(1, 0, 1, 1)
    totals, _ = sum_episodes(column(5, torch.nan, 1, 2), start, valid, 1.0, OpenSums.empty(1))
    assert totals[:, 0].tolist() == [5, 5, 1, 3]
    spread, reached = broadcast_to_steps(totals, start, marks(0, 0, 0, 1), valid)
    assert spread[:, 0].tolist() == [0, 0, 3, 3]
    assert reached[:, 0].tolist() == [False, False, True, True]


def test_a_rollout_in_which_nothing_ends_is_credited_nothing() -> None:
    spread, reached = broadcast_to_steps(column(1, 2, 3, 4), marks(1, 0, 0, 0), marks(0, 0, 0, 0), ALL)
    assert not spread.any()
    assert not reached.any()
