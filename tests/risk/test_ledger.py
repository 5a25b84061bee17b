"""Which episodes an estimate rests on."""

from __future__ import annotations

import json

import pytest
import torch

from risk.rollouts import episodes, one_step_episodes
from surefoot.risk.ledger import Ledger


def enter(ledger: Ledger, *returns: float) -> list[float]:
    steps = one_step_episodes(*returns)
    return ledger.enter(steps.reward, steps).sample.tolist()


def test_old_episodes_fill_up_a_small_rollout() -> None:
    ledger = Ledger(1, 1.0, size=3)
    assert enter(ledger, 1.0, 2.0) == [1.0, 2.0]
    assert enter(ledger, 3.0, 4.0) == [2.0, 3.0, 4.0]


def test_a_large_rollout_counts_as_a_whole_and_alone() -> None:
    ledger = Ledger(1, 1.0, size=2)
    enter(ledger, 9.0, 9.0)
    assert enter(ledger, 1.0, 2.0, 3.0) == [1.0, 2.0, 3.0]
    assert enter(ledger, 4.0) == [3.0, 4.0]


@pytest.mark.parametrize(("gamma", "total"), [(1.0, 7.0), (0.5, 2.75)])
def test_an_episode_may_lie_in_two_rollouts(gamma: float, total: float) -> None:
    """Rewards 1, 2 | 2, 2: Σ = 7; Σ ½^t·r = 1 + 1 + ½ + ¼ = 2¾."""
    ledger = Ledger(1, gamma, size=5)
    before = episodes(torch.tensor([[1.0], [2.0]]), torch.tensor([[False], [False]]))
    after = episodes(torch.tensor([[2.0], [2.0]]), torch.tensor([[False], [True]]), begins=False)
    assert not len(ledger.enter(before.reward, before).sample)
    assert ledger.enter(after.reward, after).sample.tolist() == [total]


def test_the_spread_is_that_of_all_episodes() -> None:
    """1, 3, 5, 7: mean 4, variance (9 + 1 + 1 + 9)/4 = 5, although an estimate rests on two."""
    ledger = Ledger(1, 1.0, size=1)
    assert ledger.spread == 1.0
    enter(ledger, 1.0, 3.0)
    enter(ledger, 5.0, 7.0)
    assert ledger.spread == pytest.approx(5**0.5)


def test_without_spread_the_size_is_the_unit() -> None:
    ledger = Ledger(1, 1.0, size=1)
    enter(ledger, -3.0, -3.0)
    assert ledger.spread == 3.0


def test_it_goes_on_from_its_state() -> None:
    first, second = Ledger(2, 0.9, size=3), Ledger(2, 0.9, size=3)
    reward = torch.arange(8.0).view(4, 2)
    ends = torch.tensor([[False, True], [True, False], [False, False], [False, False]])
    first.enter(reward, episodes(reward, ends))
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    later = episodes(reward, ~ends, begins=False)
    one, other = first.enter(reward, later), second.enter(reward, later)
    assert torch.equal(one.totals, other.totals)
    assert torch.equal(one.sample, other.sample)
    assert first.spread == second.spread
