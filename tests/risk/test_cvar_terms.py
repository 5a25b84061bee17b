"""CVaR in the objective and as a constraint: what it makes of a rollout."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from risk.rollouts import episodes, one_step_episodes, plain, settings
from surefoot.errors import SurefootWarning
from surefoot.risk.cvar import CvarConstraint, CvarObjective
from surefoot.risk.term import Estimated, Steps

HALF = (5.0, -3.0, 2.0, -1.0)
"""Worst half: VaR −1, CVaR −2, advantages 1, −3, 1, 1 (see test_math_tail_gradient); standard deviation 3.031."""
SPREAD = torch.tensor(HALF).std(correction=0).item()


def constraint(n_envs: int = 1, gamma: float = 0.5, **more: Any) -> CvarConstraint:
    fields = {"alpha": 0.5, "limit_per_episode": 1.0, "multiplier_kp": 0.0} | more
    fields = {name: value for name, value in fields.items() if value is not None}
    return CvarConstraint(settings("cvar_constraint", **fields), n_envs, gamma)


def objective(n_envs: int = 1, gamma: float = 1.0, **more: Any) -> CvarObjective:
    return CvarObjective(settings("cvar_objective", **{"alpha": 0.5, **more}), n_envs, gamma)


def with_returns(steps: Steps, *advantages: float, scale: float = 1.0) -> Estimated:
    return Estimated(torch.tensor(advantages)[:, None], scale)


def test_the_objective_mixes_both_advantages() -> None:
    """¼·A_r + ¾·A_cvar with A_r = 4, 0, 8, −4."""
    steps = one_step_episodes(*HALF)
    shaped = objective(cvar_weight=0.75)(steps, with_returns(steps, 4.0, 0.0, 8.0, -4.0), 0.0)
    assert shaped.advantages[:, 0].tolist() == [1.75, -2.25, 2.75, -0.25]
    assert shaped.metrics["risk/cvar"] == -2.0


def test_the_constraint_moves_the_multiplier_and_then_the_advantages() -> None:
    """Violation 1 − (−2) = 3, that is 3/σ spreads; λ = σ·(3/σ) = 3; (A_r + 3·A_cvar)/4."""
    steps = one_step_episodes(*HALF)
    shaped = constraint()(steps, with_returns(steps, 4.0, 0.0, 8.0, -4.0), SPREAD)
    assert shaped.metrics["risk/violation"] == 3.0
    assert shaped.metrics["risk/spread"] == pytest.approx(SPREAD)
    assert shaped.metrics["risk/multiplier"] == pytest.approx(3.0)
    assert shaped.advantages[:, 0].tolist() == pytest.approx([1.75, -2.25, 2.75, -0.25])


def test_with_room_to_spare_the_advantages_are_those_of_the_return() -> None:
    steps = one_step_episodes(*HALF)
    estimated = with_returns(steps, 4.0, 0.0, 8.0, -4.0)
    shaped = constraint(limit_per_episode=-9.0)(steps, estimated, 1.0)
    assert torch.equal(shaped.advantages, estimated.advantages)
    assert shaped.metrics["risk/multiplier"] == 0.0


def test_both_terms_have_the_unit_of_the_critic() -> None:
    """Rewards that the critic sees divided by 10: so is the tail's advantage."""
    steps = one_step_episodes(*(10.0 * r for r in HALF))
    raw = constraint(limit_per_episode=10.0)(steps, with_returns(steps, 4.0, 0.0, 8.0, -4.0, scale=10.0), SPREAD)
    plain_steps = one_step_episodes(*HALF)
    unit = constraint()(plain_steps, with_returns(plain_steps, 4.0, 0.0, 8.0, -4.0), SPREAD)
    torch.testing.assert_close(raw.advantages, unit.advantages)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_unit_of_the_reward_does_not_matter_to_the_multiplier(factor: float) -> None:
    found = []
    for scale in (1.0, factor):
        term = constraint(limit_per_episode=scale, multiplier_kp=2.0)
        for returns in (HALF, (1.0, 2.0, 0.0, -4.0), (3.0, 2.0, 1.0, 0.0)):
            steps = one_step_episodes(*(scale * r for r in returns))
            found.append(term(steps, plain(steps), 0.3).metrics["risk/multiplier"])
    assert found[:3] == pytest.approx(found[3:], rel=1e-5)
    assert found[0] > 0.0


def test_the_limit_is_of_the_quantity_in_its_name() -> None:
    """One episode of rewards 2, 4 with γ = ½ is worth 6 as a sum and 4 discounted."""
    steps = episodes(torch.tensor([[2.0], [4.0]]), torch.tensor([[False], [True]]))
    summed = constraint()(steps, plain(steps), 0.0)
    assert summed.metrics["risk/violation"] == 1.0 - 6.0
    discounted = constraint(limit_per_episode=None, limit_discounted=1.0)(steps, plain(steps), 0.0)
    assert discounted.metrics["risk/violation"] == 1.0 - 4.0


def test_the_objective_is_about_the_discounted_return() -> None:
    steps = episodes(torch.tensor([[2.0], [4.0]]), torch.tensor([[False], [True]]))
    assert objective(gamma=0.5)(steps, plain(steps), 0.0).metrics["risk/cvar"] == 4.0


def test_every_step_of_an_episode_that_ends_is_credited_and_no_other() -> None:
    """Env 0 ends after two steps with 1 + 1 = 2 and goes on; env 1 ends after three with −6."""
    reward = torch.tensor([[1.0, -2.0], [1.0, -2.0], [5.0, -2.0], [5.0, 7.0]])
    ends = torch.tensor([[False, False], [True, False], [False, True], [False, False]])
    shaped = objective(n_envs=2, cvar_weight=1.0)(episodes(reward, ends), plain(episodes(reward, ends)), 0.0)
    # Worst half of (2, −6) is −6, the only one: the tail widens to it. VaR 2, (−6 − 2)/½ + 8 = −8; the other 8.
    assert shaped.advantages.tolist() == [[8.0, -8.0], [8.0, -8.0], [0.0, -8.0], [0.0, 0.0]]
    assert shaped.metrics["risk/credited_fraction"] == pytest.approx(5 / 8)


def test_a_truncated_episode_counts_with_what_it_earned() -> None:
    steps = one_step_episodes(3.0, 1.0)
    cut = steps._replace(terminated=steps.truncated, truncated=steps.terminated)
    assert objective()(cut, plain(cut), 0.0).metrics["risk/cvar"] == 1.0


def test_without_a_finished_episode_it_waits_counts_and_says_so_once() -> None:
    term = constraint(multiplier_init=1.0)
    steps = episodes(torch.ones(2, 1), torch.zeros(2, 1, dtype=torch.bool))
    estimated = with_returns(steps, 4.0, 2.0)
    with pytest.warns(SurefootWarning, match=r"no episode ended in this rollout.*risk/waiting.*n_steps"):
        shaped = term(steps, estimated, 1.0)
    assert shaped.metrics["risk/waiting"] == 1.0
    assert shaped.metrics["risk/multiplier"] == 1.0
    assert "risk/cvar" not in shaped.metrics
    # No tail advantage, and λ = 1 as it was: half of the return's own.
    assert shaped.advantages[:, 0].tolist() == [2.0, 1.0]
    assert term(steps._replace(start=~steps.valid), estimated, 1.0).metrics["risk/waiting"] == 2.0


def test_a_thin_tail_is_defined_and_marked() -> None:
    """0.1 of four episodes is less than one: the worst of them."""
    steps = one_step_episodes(*HALF)
    shaped = constraint(alpha=0.1)(steps, plain(steps), 0.0)
    assert shaped.metrics["risk/cvar"] == -3.0
    assert shaped.metrics["warn/thin_tail"] == pytest.approx(0.4)


def test_the_sample_grows_to_twenty_episodes_in_the_tail() -> None:
    term = constraint()  # α = ½: 40 episodes
    for n in (4, 8, 12):
        steps = one_step_episodes(*HALF)
        assert term(steps, plain(steps), 0.0).metrics["risk/episodes"] == n
    for _ in range(10):
        metrics = term(steps, plain(steps), 0.0).metrics
    assert metrics["risk/episodes"] == 40.0


def test_the_critic_is_compared_on_the_discounted_return_at_first_steps() -> None:
    """Two episodes of rewards (2, 4) and (0, 2), γ = ½: 4 and 1. The worst half is 1; the critic says 3 and 2."""
    reward = torch.tensor([[2.0, 0.0], [4.0, 2.0]])
    steps = episodes(reward, torch.tensor([[False, False], [True, True]]))
    predicted = torch.tensor([[3.0, 2.0], [99.0, 99.0]])
    metrics = constraint(n_envs=2)(steps, plain(steps, predicted_cvar=predicted), 0.0).metrics
    assert metrics["risk/cvar_predicted"] == 2.5
    assert metrics["risk/cvar_discounted"] == 1.0
    assert metrics["risk/cvar_gap"] == 1.5
    assert metrics["risk/cvar"] == 2.0  # of the plain sums 6 and 2, which the limit is about


def test_truncated_episodes_are_not_compared_with_the_critic() -> None:
    """The critic's prediction goes on beyond the cut."""
    steps = one_step_episodes(3.0, 1.0)
    cut = steps._replace(terminated=steps.truncated, truncated=steps.terminated)
    metrics = objective()(cut, plain(cut, predicted_cvar=torch.zeros(2, 1)), 0.0).metrics
    assert "risk/cvar_gap" not in metrics


@pytest.mark.parametrize("make", [constraint, objective])
def test_it_goes_on_from_its_state(make: Any) -> None:
    first, second = make(n_envs=2), make(n_envs=2)
    reward = torch.tensor([[2.0, 0.0], [4.0, 2.0], [1.0, -3.0]])
    before = episodes(reward, torch.tensor([[False, False], [True, True], [False, False]]))
    after = episodes(reward, torch.tensor([[True, False], [False, True], [True, True]]), begins=False)
    predicted = torch.ones(3, 2)
    first(before, plain(before, predicted_cvar=predicted), 0.3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    one, other = (term(after, plain(after, predicted_cvar=predicted), 0.3) for term in (first, second))
    assert torch.equal(one.advantages, other.advantages)
    assert one.metrics == other.metrics
