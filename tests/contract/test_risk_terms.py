"""The contract of risk terms: every kind that is registered runs every test here."""

from __future__ import annotations

import copy
import json
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from risk.rollouts import episodes, settings
from surefoot.algo.metrics import declared
from surefoot.risk.build import KINDS, build_risk
from surefoot.risk.term import RiskTerm, Steps

T, N, GAMMA, RATE = 40, 3, 0.9, 0.5
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "CVaR objective": ("cvar_objective", {"alpha": 0.25}),
    "CVaR of an episode": ("cvar_constraint", {"alpha": 0.25, "limit_per_episode": 1.0}),
    "CVaR of a discounted episode": ("cvar_constraint", {"alpha": 0.25, "limit_discounted": 1.0}),
    "CVaR of a step": ("cvar_constraint", {"alpha": 0.25, "limit_per_step": 0.0}),
    "cost of an episode": ("cost_constraint", {"limit_per_episode": 1.0}),
    "discounted cost": ("cost_constraint", {"limit_discounted": 1.0}),
}
"""By name: the kind, and settings."""
every_case = pytest.mark.parametrize("case", CASES)


def build(case: str) -> RiskTerm:
    kind, fields = CASES[case]
    term = build_risk(settings(kind, **fields), N, GAMMA)
    assert term is not None
    return term


def rollout(term: RiskTerm, seed: int, scale: float = 1.0) -> Steps:
    """Episodes of five steps, of which the last row is none."""
    generator = torch.Generator().manual_seed(seed)
    reward = scale * torch.randn(T, N, generator=generator)
    ends = (torch.arange(T) % 5 == 4)[:, None].expand(T, N).clone()
    steps = episodes(reward, ends, discount=term.context_discount or 1.0)
    valid = steps.valid.clone()
    valid[-1] = False
    return steps._replace(cost=scale * torch.rand(T, N, generator=generator), valid=valid)


@pytest.fixture(autouse=True)
def few_episodes() -> Any:
    """Terms may say that they rest on few episodes, which these tests do not ask about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def normal(seed: int) -> Tensor:
    return torch.randn(T, N, generator=torch.Generator().manual_seed(seed))


def test_every_kind_has_a_case() -> None:
    assert {kind for kind, _ in CASES.values()} == set(KINDS)


@every_case
def test_what_it_says_of_itself_is_known_before_any_rollout(case: str) -> None:
    term = build(case)
    assert term.auxiliary.name
    assert 0.0 <= term.auxiliary.discount <= 1.0
    assert (term.alpha is not None) == ("CVaR" in case)
    assert term.needs_costs == ("cost" in case)
    assert declared(f"risk/{term.auxiliary.name}_explained_variance") is not None


@every_case
def test_metrics_are_numbers_with_declared_keys(case: str) -> None:
    term = build(case)
    found = term.observe(rollout(term, 0), RATE)
    assert found
    for key, value in found.items():
        assert isinstance(value, float)
        assert declared(key) is not None, key


@every_case
def test_the_signal_is_finite_and_0_where_no_step_is(case: str) -> None:
    term = build(case)
    steps = rollout(term, 0)
    term.observe(steps, RATE)
    signal = term.signal(steps)
    assert signal.shape == (T, N)
    assert signal.dtype == steps.reward.dtype
    assert torch.isfinite(signal).all()
    assert signal[steps.valid].std() > 0


@every_case
def test_signal_and_adjust_change_nothing(case: str) -> None:
    term = build(case)
    steps = rollout(term, 0)
    term.observe(steps, RATE)
    before = copy.deepcopy(term.state_dict())
    first = term.signal(steps), term.adjust(normal(1), normal(2))
    assert term.state_dict() == before
    for one, again in zip(first, (term.signal(steps), term.adjust(normal(1), normal(2))), strict=True):
        assert torch.equal(one, again)


@every_case
def test_adjusted_advantages_are_in_proportion_to_both_and_want_more_of_each(case: str) -> None:
    """So the policy is asked for more return and for a larger signal, whatever the unit of rewards is (R02)."""
    term = build(case)
    for seed in range(3):
        term.observe(rollout(term, seed), RATE)
        term.advance()
    one, two, none = normal(1), normal(2), torch.zeros(T, N)
    both = term.adjust(one, two)
    torch.testing.assert_close(both, term.adjust(one, none) + term.adjust(none, two))
    torch.testing.assert_close(term.adjust(3.0 * one, 3.0 * two), 3.0 * both)
    assert (term.adjust(one.abs() + 1.0, none) > 0).all()
    assert (term.adjust(none, two.abs() + 1.0) >= 0).all()


@every_case
def test_a_saved_term_goes_on_as_it_would_have(case: str) -> None:
    whole, cut, resumed = build(case), build(case), build(case)
    for term in (whole, cut):
        for seed in range(2):
            term.observe(rollout(term, seed), RATE)
            term.advance()
    resumed.load_state_dict(json.loads(json.dumps(cut.state_dict())))
    steps = rollout(whole, 9)
    assert whole.observe(steps, RATE) == resumed.observe(steps, RATE)
    assert torch.equal(whole.signal(steps), resumed.signal(steps))
    assert torch.equal(whole.adjust(normal(1), normal(2)), resumed.adjust(normal(1), normal(2)))
    assert whole.unit == resumed.unit


@every_case
def test_open_episodes_can_be_forgotten_for_another_number_of_envs(case: str) -> None:
    term = build(case)
    term.observe(rollout(term, 0), RATE)
    assert term.is_open_for(N)
    term.forget_open(N + 2)
    assert term.is_open_for(N + 2)
