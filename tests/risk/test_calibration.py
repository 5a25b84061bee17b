"""The critic's tail beside that of the episodes (R05)."""

from __future__ import annotations

import json

import pytest
import torch

from risk.rollouts import episodes, one_step_episodes
from surefoot.critics.quantile import QuantileCritic
from surefoot.critics.scalar import ScalarCritic
from surefoot.nets.init import Initializer
from surefoot.risk.calibration import Calibration


def quantile_critic() -> QuantileCritic:
    return QuantileCritic(1, Initializer(torch.Generator()), 32, 0.0, "none", False)


def test_a_right_critic_has_no_gap_although_starting_states_differ() -> None:
    """The return is 10·s₀ with s₀ = ±1: every conditional CVaR is the return itself, that of the mixture is −10."""
    returns = [10.0, -10.0] * 200
    steps = one_step_episodes(*returns)
    prediction = steps.reward[..., None].expand(-1, -1, 32)
    metrics = Calibration(1, 0.05, 1.0).update(steps, quantile_critic(), prediction, 1.0)
    assert metrics["risk/cvar_predicted"] == pytest.approx(-10.0)
    assert metrics["risk/cvar_discounted"] == pytest.approx(-10.0)
    assert metrics["risk/cvar_gap"] == pytest.approx(0.0, abs=1e-5)


def test_it_is_of_the_discounted_return_at_first_steps_in_raw_rewards() -> None:
    """Two episodes of rewards (2, 4) and (0, 2), γ = ½: 4 and 1. The worst half is 1; the critic says 2·(1.5, 1)."""
    reward = torch.tensor([[2.0, 0.0], [4.0, 2.0]])
    steps = episodes(reward, torch.tensor([[False, False], [True, True]]))
    prediction = torch.tensor([[1.5, 1.0], [99.0, 99.0]])[..., None]
    critic = ScalarCritic(1, Initializer(torch.Generator()))
    metrics = Calibration(2, 0.5, 0.5).update(steps, critic, prediction, 2.0)
    assert metrics == {"risk/cvar_predicted": 2.0, "risk/cvar_discounted": 1.0, "risk/cvar_gap": 1.0}


def test_truncated_episodes_are_not_compared() -> None:
    """The critic's prediction goes on beyond the cut."""
    steps = one_step_episodes(3.0, 1.0)
    cut = steps._replace(terminated=steps.truncated, truncated=steps.terminated)
    critic = ScalarCritic(1, Initializer(torch.Generator()))
    assert Calibration(1, 0.5, 1.0).update(cut, critic, torch.zeros(2, 1, 1), 1.0) == {}


def test_it_goes_on_from_its_state() -> None:
    first, second = Calibration(1, 0.5, 0.9), Calibration(1, 0.5, 0.9)
    critic, prediction = ScalarCritic(1, Initializer(torch.Generator())), torch.ones(2, 1, 1)
    open_end = torch.tensor([[True], [False]])
    before = episodes(torch.tensor([[1.0], [2.0]]), open_end)
    after = episodes(torch.tensor([[3.0], [4.0]]), open_end, begins=False)
    first.update(before, critic, prediction, 1.0)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert first.update(after, critic, prediction, 1.0) == second.update(after, critic, prediction, 1.0)
