"""CVaR in the objective and as a constraint: what it makes of a rollout."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from risk.rollouts import episodes, one_step_episodes, settings
from surefoot.errors import NonFiniteError, RiskError
from surefoot.risk.build import build_risk
from surefoot.risk.shortfall import THRESHOLD_RATE
from surefoot.risk.term import RiskTerm, Steps

HALF = (5.0, -3.0, 2.0, -1.0)
"""Worst half: VaR −1, CVaR −2, shortfalls 0, −4, 0, 0 (see test_math_tail); standard deviation 3.5."""
STD = torch.tensor(HALF).std().item()
NO_END = torch.zeros(2, 1, dtype=torch.bool)


def made(kind: str, gamma: float, fields: dict[str, Any], n_envs: int = 1) -> RiskTerm:
    given = {name: value for name, value in fields.items() if value is not None}
    term = build_risk(settings(kind, **given), n_envs, gamma)
    assert term is not None
    return term


def constraint(gamma: float = 0.5, **more: Any) -> RiskTerm:
    return made("cvar_constraint", gamma, {"alpha": 0.5, "limit_per_episode": 1.0, "multiplier_kp": 0.0} | more)


def objective(gamma: float = 1.0, **more: Any) -> RiskTerm:
    return made("cvar_objective", gamma, {"alpha": 0.5} | more)


def by_step(**more: Any) -> RiskTerm:
    return constraint(limit_per_episode=None, limit_per_step=1.0, **more)


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values)[:, None]


def test_the_signal_of_one_step_episodes_is_their_shortfall() -> None:
    """u(R) − u(0) with u(x) = min(0, x + 1)/½: −4 for −3, otherwise 0; u(0) = 0."""
    term, steps = objective(), one_step_episodes(*HALF)
    metrics = term.observe(steps, 0.0)
    assert term.signal(steps)[:, 0].tolist() == [0.0, -4.0, 0.0, 0.0]
    assert metrics["risk/cvar"] == -2.0
    assert metrics["risk/cvar_se"] == pytest.approx(2.0 / 4**0.5)  # of (0, −4, 0, 0): √(12/3) = 2
    assert metrics["risk/tail_episodes"] == 2.0


@pytest.mark.parametrize("discount", [1.0, 0.5])
def test_signals_telescope_to_the_shortfall_wherever_rollouts_cut_an_episode(discount: float) -> None:
    """R08: every step is credited, and what all of them are credited is the shortfall of the episode's return."""
    generator = torch.Generator().manual_seed(0)
    reward = torch.randn(12, 3, generator=generator)
    ends = torch.zeros(12, 3, dtype=torch.bool)
    ends[-1] = True
    limit: dict[str, Any] = {"limit_per_episode": 1.0} if discount == 1.0 else {"limit_discounted": 1.0}
    term = constraint(gamma=discount, **{"limit_per_episode": None} | limit)
    whole = episodes(reward, ends, discount=discount)
    term.observe(whole, 0.0)
    threshold = term.unit.origin if term.unit is not None else None
    assert threshold is not None
    returns = (reward.double() * discount ** torch.arange(12.0)[:, None].double()).sum(0)
    shortfall = ((returns - threshold).clamp(max=0.0) - min(0.0, -threshold)) / 0.5
    signal = term.signal(whole).double()
    torch.testing.assert_close(signal.sum(0), shortfall, rtol=1e-5, atol=1e-5)
    for cut in (1, 5, 11):
        tensors = [x for x in whole if isinstance(x, torch.Tensor)]
        first, second = (Steps(*(x[part] for x in tensors)) for part in (slice(cut), slice(cut, None)))  # type: ignore[arg-type]  # the last field is no tensor
        torch.testing.assert_close(torch.cat([term.signal(first), term.signal(second)]).double(), signal)


def test_its_critic_learns_an_undiscounted_sum_that_ends_with_the_episode_and_sees_the_return_so_far() -> None:
    plain, discounted = constraint().auxiliary, constraint(limit_per_episode=None, limit_discounted=1.0).auxiliary
    assert (plain.name, plain.discount, plain.ends_with_truncation, plain.n_context) == ("shortfall", 1.0, True, 2)
    assert (discounted.discount, discounted.n_context) == (1.0, 3)
    step = by_step().auxiliary
    assert (step.discount, step.ends_with_truncation, step.n_context) == (0.5, False, 0)


def test_the_objective_mixes_both_advantages() -> None:
    """¼·A_r + ¾·A_cvar."""
    adjusted = objective(cvar_weight=0.75).adjust(column(4.0, 0.0), column(1.0, -3.0))
    assert adjusted[:, 0].tolist() == [1.75, -2.25]


def test_the_constraint_moves_the_multiplier_before_it_is_used() -> None:
    """Violation 1 − (−2) = 3, that is 3/(σ + 3) units; λ = (σ + 3)·3/(σ + 3) = 3; (A_r + 3·A_cvar)/4."""
    term = constraint()
    metrics = term.observe(one_step_episodes(*HALF), STD + 3.0)
    assert metrics["risk/violation"] == 3.0
    assert metrics["risk/std"] == pytest.approx(STD)
    assert metrics["risk/multiplier"] == pytest.approx(3.0)
    assert term.adjust(column(4.0, 0.0), column(1.0, -3.0))[:, 0].tolist() == pytest.approx([1.75, -2.25])


def test_with_room_to_spare_the_advantages_are_those_of_the_return() -> None:
    term = constraint(limit_per_episode=-9.0)
    assert term.observe(one_step_episodes(*HALF), 1.0)["risk/multiplier"] == 0.0
    assert torch.equal(term.adjust(column(4.0, 0.0), column(1.0, -3.0)), column(4.0, 0.0))


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_unit_of_the_reward_does_not_matter_to_the_multiplier(factor: float) -> None:
    found = []
    for scale in (1.0, factor):
        term = constraint(limit_per_episode=scale, multiplier_kp=2.0)
        for returns in (HALF, (1.0, 2.0, 0.0, -4.0), (3.0, 2.0, 1.0, 0.0)):
            found.append(term.observe(one_step_episodes(*(scale * r for r in returns)), 0.3)["risk/multiplier"])
    assert found[:3] == pytest.approx(found[3:], rel=1e-5)
    assert found[0] > 0.0


def test_the_limit_is_of_the_quantity_in_its_name() -> None:
    """One episode of rewards 2, 4 with γ = ½ is worth 6 as a sum, 4 discounted, and its worse step 2."""
    reward, ends = column(2.0, 4.0), torch.tensor([[False], [True]])
    assert constraint().observe(episodes(reward, ends), 0.0)["risk/violation"] == 1.0 - 6.0
    discounted = constraint(limit_per_episode=None, limit_discounted=1.0)
    assert discounted.observe(episodes(reward, ends, discount=0.5), 0.0)["risk/violation"] == 1.0 - 4.0
    assert by_step().observe(episodes(reward, ends), 0.0)["risk/violation"] == 1.0 - 2.0


def test_a_limit_per_step_needs_no_episode_to_end() -> None:
    """Worst half of (5, −3, 2, −1) as steps of one endless episode: the signal of each is its own shortfall."""
    term = by_step()
    steps = episodes(column(*HALF), torch.zeros(4, 1, dtype=torch.bool), begins=False)
    metrics = term.observe(steps, 0.0)
    assert metrics["risk/cvar"] == -2.0
    assert metrics["risk/tail_steps"] == 2.0
    assert term.signal(steps)[:, 0].tolist() == [0.0, -4.0, 0.0, 0.0]


def test_a_truncated_episode_counts_with_what_it_earned() -> None:
    steps = one_step_episodes(3.0, 1.0)
    cut = steps._replace(terminated=steps.truncated, truncated=steps.terminated)
    assert objective().observe(cut, 0.0)["risk/cvar"] == 1.0


def test_before_any_episode_has_ended_nothing_is_credited_and_the_multiplier_stays() -> None:
    term = constraint(multiplier_init=1.0)
    steps = episodes(torch.ones(2, 1), NO_END)
    assert term.observe(steps, 1.0)["risk/multiplier"] == 1.0
    assert not bool(term.signal(steps).any())
    assert term.unit is None


def test_steps_are_credited_in_rollouts_in_which_no_episode_ends() -> None:
    """R08: the threshold is known from earlier episodes; the step from 0 to −5 falls 4 below −1, by half: −8."""
    term = constraint()
    term.observe(one_step_episodes(*HALF), 0.0)
    steps = episodes(column(-5.0, 1.0), NO_END)
    term.observe(steps, 0.0)
    assert term.signal(steps)[:, 0].tolist() == [-8.0, 2.0]


def test_the_threshold_stays_while_a_rollout_is_learned_from_and_then_moves_slowly() -> None:
    term, steps = objective(), one_step_episodes(*HALF)
    term.observe(steps, 0.0)
    term.advance()
    before = term.unit
    assert before is not None
    assert before.origin == -1.0
    better = one_step_episodes(*[9.0] * 40)
    term.observe(better, 0.0)
    assert term.unit is not None
    assert term.unit.origin == -1.0
    term.advance()
    assert term.unit.origin == pytest.approx(-1.0 + THRESHOLD_RATE * 10.0)


def test_an_episode_that_never_ends_is_an_error_that_names_the_limit_per_step() -> None:
    term = constraint(max_steps_without_episode=4)
    steps = episodes(torch.ones(2, 1), NO_END)
    term.observe(steps, 0.0)
    with pytest.raises(RiskError, match=r"no episode ended in 4 steps.*risk\.limit_per_step"):
        term.observe(steps, 0.0)


def test_with_few_episodes_in_the_tail_it_goes_on_and_the_log_says_how_many_it_wants() -> None:
    metrics = constraint().observe(one_step_episodes(*HALF), 0.0)
    assert metrics["risk/tail_episodes"] == metrics["warn/few_tail_episodes"] == 2.0
    assert metrics["risk/tail_episodes_wanted"] == 20.0
    assert "warn/few_tail_episodes" not in constraint().observe(one_step_episodes(*HALF * 10), 0.0)


def test_returns_that_overflow_are_named() -> None:
    steps = one_step_episodes(1.0, 2.0)
    huge = steps._replace(running=torch.full_like(steps.running, 1.7e308), weight=torch.full_like(steps.weight, 1e308))
    with pytest.raises(NonFiniteError, match=r"env 0 at step 0 is inf"):
        objective().observe(huge, 0.0)


def test_a_sample_too_small_for_alpha_is_its_worst_value() -> None:
    """0.1 of four episodes is less than one."""
    assert constraint(alpha=0.1).observe(one_step_episodes(*HALF), 0.0)["risk/cvar"] == -3.0


def test_the_sample_grows_to_twenty_episodes_in_the_tail() -> None:
    term, steps = constraint(), one_step_episodes(*HALF * 3)  # α = ½: 40 episodes
    sizes = [term.observe(steps, 0.0)["risk/sample"] for _ in range(4)]
    assert sizes == [12.0, 24.0, 36.0, 40.0]


@pytest.mark.parametrize("make", [constraint, objective, by_step])
def test_it_goes_on_from_its_state(make: Any) -> None:
    first, second = make(), make()
    before = one_step_episodes(*HALF)
    first.observe(before, 0.3)
    first.advance()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    after = one_step_episodes(3.0, -4.0, 0.5)
    assert first.observe(after, 0.3) == second.observe(after, 0.3)
    assert torch.equal(first.signal(after), second.signal(after))
    a_return, a_tail = torch.randn(3, 1), torch.randn(3, 1)
    assert torch.equal(first.adjust(a_return, a_tail), second.adjust(a_return, a_tail))
