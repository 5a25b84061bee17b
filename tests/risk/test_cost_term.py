"""A limit on the mean cost of an episode: what it makes of a rollout."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from risk.rollouts import episodes, one_step_episodes, settings
from surefoot.errors import SurefootWarning
from surefoot.risk.cost import CostConstraint
from surefoot.risk.term import Estimated, Steps

RETURNS, COSTS = (4.0, 0.0, 0.0, 4.0), (0.0, 3.0, 2.0, 3.0)
"""Standard deviation of the returns 2; mean cost 2, variance (4 + 1 + 0 + 1)/4 = 1½."""


def constraint(**more: Any) -> CostConstraint:
    fields = {"limit_per_episode": 1.0, "multiplier_kp": 0.0} | more
    given = {name: value for name, value in fields.items() if value is not None}
    return CostConstraint(settings("cost_constraint", **given), 1, 0.5)


def rollout(factor: float = 1.0, worth: float = 1.0) -> Steps:
    return one_step_episodes(*(worth * r for r in RETURNS), costs=tuple(factor * c for c in COSTS))


def estimated(steps: Steps, scale: float = 1.0) -> Estimated:
    """A_r = 1, 2, 3, 4 and A_c = 0, 1, 0, −1."""
    ordinary = torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None] / scale
    return Estimated(ordinary, scale, torch.tensor([0.0, 1.0, 0.0, -1.0])[:, None])


def test_the_advantage_of_the_cost_is_subtracted() -> None:
    """Violation 2 − 1 = 1. In spreads it is 1/√1½, times 2/√1½ return per cost: λ = ¾·4/3 = 1; (A_r − A_c)/2."""
    steps = rollout()
    shaped = constraint()(steps, estimated(steps), 0.75)
    assert shaped.metrics["risk/cost"] == 2.0
    assert shaped.metrics["risk/violation"] == 1.0
    assert shaped.metrics["risk/multiplier"] == pytest.approx(1.0)
    assert shaped.advantages[:, 0].tolist() == pytest.approx([0.5, 0.5, 1.5, 2.5])


def test_with_room_to_spare_the_advantages_are_those_of_the_return() -> None:
    steps = rollout()
    shaped = constraint(limit_per_episode=9.0)(steps, estimated(steps), 1.0)
    assert torch.equal(shaped.advantages, estimated(steps).advantages)


def test_both_terms_have_the_unit_of_the_critic() -> None:
    steps = rollout()
    scaled = constraint()(steps, estimated(steps, scale=4.0), 0.75)
    assert scaled.advantages[:, 0].tolist() == pytest.approx([0.125, 0.125, 0.375, 0.625])


def test_neither_unit_matters() -> None:
    """λ is reward per cost: costs ten times as large are worth a tenth."""
    found = []
    for factor, worth in ((1.0, 1.0), (10.0, 1.0), (1.0, 7.0)):
        steps = rollout(factor, worth)
        term = constraint(limit_per_episode=factor, multiplier_kp=3.0)
        found.append(term(steps, estimated(steps), 0.75).metrics["risk/multiplier"] * factor / worth)
    assert found == pytest.approx([found[0]] * 3)
    assert found[0] > 0.0


def test_the_limit_is_of_the_quantity_in_its_name() -> None:
    """Costs 2, 4 with γ = ½: 6 as a sum, 4 discounted."""
    steps = episodes(torch.zeros(2, 1), torch.tensor([[False], [True]]))._replace(cost=torch.tensor([[2.0], [4.0]]))
    known = Estimated(torch.zeros(2, 1), 1.0, torch.zeros(2, 1))
    assert constraint()(steps, known, 0.0).metrics["risk/violation"] == 5.0
    assert constraint(limit_per_episode=None, limit_discounted=1.0)(steps, known, 0.0).metrics["risk/violation"] == 3.0


def test_while_no_episode_ends_the_multiplier_waits_and_still_acts() -> None:
    term = constraint(multiplier_init=1.0)
    steps = episodes(torch.ones(4, 1), torch.zeros(4, 1, dtype=torch.bool))
    with pytest.warns(SurefootWarning, match="mean cost of an episode"):
        shaped = term(steps, estimated(steps), 1.0)
    assert shaped.metrics["risk/waiting"] == 1.0
    assert shaped.metrics["risk/multiplier"] == 1.0
    assert shaped.advantages[:, 0].tolist() == [0.5, 0.5, 1.5, 2.5]


def test_it_goes_on_from_its_state() -> None:
    first, second = constraint(multiplier_kp=2.0), constraint(multiplier_kp=2.0)
    steps = rollout()
    first(steps, estimated(steps), 0.3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    one, other = (term(steps, estimated(steps), 0.3) for term in (first, second))
    assert torch.equal(one.advantages, other.advantages)
    assert one.metrics == other.metrics
