"""A limit on the mean cost of an episode: what it makes of a rollout."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from risk.rollouts import episodes, one_step_episodes, settings
from surefoot.errors import RiskError, SurefootWarning
from surefoot.risk.build import build_risk
from surefoot.risk.term import RiskTerm, Steps

RETURNS, COSTS = (4.0, 0.0, 0.0, 4.0), (0.0, 3.0, 2.0, 3.0)
"""Standard deviation of the returns 2; mean cost 2, variance (4 + 1 + 0 + 1)/4 = 1½."""


A_RETURN = torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None]
A_COST = torch.tensor([0.0, 1.0, 0.0, -1.0])[:, None]


def constraint(**more: Any) -> RiskTerm:
    fields = {"limit_per_episode": 1.0, "multiplier_kp": 0.0} | more
    given = {name: value for name, value in fields.items() if value is not None}
    term = build_risk(settings("cost_constraint", **given), 1, 0.5)
    assert term is not None
    return term


def rollout(factor: float = 1.0, worth: float = 1.0) -> Steps:
    return one_step_episodes(*(worth * r for r in RETURNS), costs=tuple(factor * c for c in COSTS))


def test_the_advantage_of_the_cost_is_subtracted() -> None:
    """Violation 2 − 1 = 1, that is v = 1/(√1½ + 1) units; times 2/√1½ return per cost; λ = 1; (A_r − A_c)/2."""
    term = constraint()
    metrics = term.observe(rollout(), (1.5**0.5 + 1.0) * 1.5**0.5 / 2.0)
    assert metrics["risk/cost"] == 2.0
    assert metrics["risk/violation"] == 1.0
    assert metrics["risk/multiplier"] == pytest.approx(1.0)
    assert term.adjust(A_RETURN, -A_COST)[:, 0].tolist() == pytest.approx([0.5, 0.5, 1.5, 2.5])


def test_its_critic_learns_the_cost_with_the_discount_of_the_return() -> None:
    term, steps = constraint(), rollout()
    assert torch.equal(term.signal(steps), -steps.cost)
    assert (term.auxiliary.name, term.auxiliary.discount, term.auxiliary.n_context) == ("cost", 0.5, 0)
    assert term.needs_costs
    assert term.alpha is None


def test_with_room_to_spare_the_advantages_are_those_of_the_return() -> None:
    term = constraint(limit_per_episode=9.0)
    term.observe(rollout(), 1.0)
    assert torch.equal(term.adjust(A_RETURN, -A_COST), A_RETURN)


def test_neither_unit_matters() -> None:
    """λ is reward per cost: costs ten times as large are worth a tenth."""
    found = []
    for factor, worth in ((1.0, 1.0), (10.0, 1.0), (1.0, 7.0)):
        term = constraint(limit_per_episode=factor, multiplier_kp=3.0)
        found.append(term.observe(rollout(factor, worth), 0.75)["risk/multiplier"] * factor / worth)
    assert found == pytest.approx([found[0]] * 3)
    assert found[0] > 0.0


def test_the_limit_is_of_the_quantity_in_its_name() -> None:
    """Costs 2, 4 with γ = ½: 6 as a sum, 4 discounted."""
    steps = episodes(torch.zeros(2, 1), torch.tensor([[False], [True]]))._replace(cost=torch.tensor([[2.0], [4.0]]))
    assert constraint().observe(steps, 0.0)["risk/violation"] == 5.0
    assert constraint(limit_per_episode=None, limit_discounted=1.0).observe(steps, 0.0)["risk/violation"] == 3.0


def test_while_no_episode_ends_the_multiplier_stays_and_still_acts() -> None:
    term = constraint(multiplier_init=1.0)
    steps = episodes(torch.ones(4, 1), torch.zeros(4, 1, dtype=torch.bool))
    with pytest.warns(SurefootWarning, match="mean cost of an episode"):
        metrics = term.observe(steps, 1.0)
    assert metrics["risk/rollouts_without_episode"] == 1.0
    assert metrics["risk/multiplier"] == 1.0
    assert term.adjust(A_RETURN, -A_COST)[:, 0].tolist() == [0.5, 0.5, 1.5, 2.5]


@pytest.mark.filterwarnings("ignore:no episode ended in this rollout")
def test_episodes_that_never_end_are_an_error_after_so_many_steps() -> None:
    """The multiplier would stay at 0 for ever. An episode that ends begins the count anew."""
    term = constraint(max_steps_without_episode=8)
    endless = episodes(torch.ones(4, 1), torch.zeros(4, 1, dtype=torch.bool))
    for _ in range(3):
        assert term.observe(endless, 1.0)["risk/rollouts_without_episode"] == 1.0
        term.observe(rollout(), 1.0)
    term.observe(endless, 1.0)
    with pytest.raises(RiskError, match=r"in 8 steps of any env.*limit_per_step.*max_steps_without_episode"):
        term.observe(endless, 1.0)


def test_it_goes_on_from_its_state() -> None:
    first, second = constraint(multiplier_kp=2.0), constraint(multiplier_kp=2.0)
    first.observe(rollout(), 0.3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert first.observe(rollout(), 0.3) == second.observe(rollout(), 0.3)
    assert torch.equal(first.adjust(A_RETURN, -A_COST), second.adjust(A_RETURN, -A_COST))
