"""Which values an estimate rests on."""

from __future__ import annotations

import json

import pytest
import torch

from risk.rollouts import episodes
from surefoot.risk.episode_sums import EpisodeSums
from surefoot.risk.recent import RecentValues


def update(recent: RecentValues, *values: float) -> list[float]:
    found: list[float] = recent.update(torch.tensor(values)).tolist()
    return found


def test_old_values_complete_a_small_rollout() -> None:
    recent = RecentValues(3)
    assert update(recent, 1.0, 2.0) == [1.0, 2.0]
    assert update(recent, 3.0, 4.0) == [2.0, 3.0, 4.0]


def test_a_large_rollout_counts_as_a_whole_and_alone() -> None:
    recent = RecentValues(2)
    update(recent, 9.0, 9.0)
    assert update(recent, 1.0, 2.0, 3.0) == [1.0, 2.0, 3.0]
    assert update(recent, 4.0) == [3.0, 4.0]


@pytest.mark.parametrize(("gamma", "total"), [(1.0, 7.0), (0.5, 2.75)])
def test_an_episode_may_lie_in_two_rollouts(gamma: float, total: float) -> None:
    """Rewards 1, 2 | 2, 2: Σ = 7; Σ ½^t·r = 1 + 1 + ½ + ¼ = 2¾."""
    sums = EpisodeSums(1, gamma, size=5)
    before = episodes(torch.tensor([[1.0], [2.0]]), torch.tensor([[False], [False]]))
    after = episodes(torch.tensor([[2.0], [2.0]]), torch.tensor([[False], [True]]), begins=False)
    assert not len(sums.update(before.reward, before))
    assert sums.update(after.reward, after).tolist() == [total]


def test_the_standard_deviation_is_that_of_all_values() -> None:
    """1, 3, 5, 7: mean 4, variance (9 + 1 + 1 + 9)/4 = 5, although an estimate rests on two."""
    recent = RecentValues(1)
    assert recent.std == 1.0
    update(recent, 1.0, 3.0)
    update(recent, 5.0, 7.0)
    assert recent.std == pytest.approx(5**0.5)


def test_of_equal_values_the_size_is_the_unit() -> None:
    recent = RecentValues(1)
    update(recent, -3.0, -3.0)
    assert recent.std == 3.0


def test_sums_go_on_from_their_state() -> None:
    first, second = EpisodeSums(2, 0.9, size=3), EpisodeSums(2, 0.9, size=3)
    reward = torch.arange(8.0).view(4, 2)
    ends = torch.tensor([[False, True], [True, False], [False, False], [False, False]])
    first.update(reward, episodes(reward, ends))
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    later = episodes(reward, ~ends, begins=False)
    assert torch.equal(first.update(reward, later), second.update(reward, later))
    assert first.recent.std == second.recent.std
