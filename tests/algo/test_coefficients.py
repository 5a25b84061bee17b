"""Coefficients over a run: schedules, adaptive learning rate, entropy decay (O03, P07)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from algo.building import by_part, iterate, make_learner, updates, values_of
from surefoot.algo.coefficients import RATE_LIMITS, CoefficientPlan
from surefoot.config import PPOConfig, from_flat
from surefoot.errors import ConfigError


def plan(**settings: Any) -> CoefficientPlan:
    return CoefficientPlan(from_flat(**settings).ppo)


def test_every_coefficient_follows_its_schedule_in_every_update() -> None:
    learner = make_learner(
        learning_rate="linear(1e-3, 0)",
        clip_range="linear(0.3, 0.1)",
        clip_range_vf="piecewise(0: 0.5, 0.5: 0.1, 1: 0.1)",
        ent_coef="cosine(0.2, 0)",
        vf_coef="warmup(0.5, 0.8)",
        n_epochs=1,
    )
    found = [record.coefficients for record in updates(learner, 8, 8)]
    assert [c.learning_rate for c in found] == pytest.approx([1e-3 * (1 - k / 8) for k in range(8)])
    assert [c.clip_range for c in found] == pytest.approx([0.3 - 0.2 * k / 8 for k in range(8)])
    assert [c.clip_range_vf for c in found] == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1])
    assert [c.ent_coef for c in found][::4] == pytest.approx([0.2, 0.1])
    assert [c.vf_coef for c in found] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.8])


def test_the_learning_rate_in_force_is_the_one_of_the_schedule() -> None:
    learner = make_learner(learning_rate="piecewise(0: 1e-3, 0.5: 0, 1: 0)")
    iterate(learner, 2, 4)
    before = values_of(learner)
    iterate(learner, 2, 4)
    assert torch.equal(values_of(learner), before)


def test_schedules_go_on_when_learning_is_taken_up_again() -> None:
    """A second call to learn spans its schedule over all updates so far and to come; the start does not come back."""
    learner = make_learner(learning_rate="linear(1e-3, 0)", n_epochs=1)
    first, second = updates(learner, 4, 4), updates(learner, 4, 8)
    assert [record.update for record in [*first, *second]] == list(range(8))
    rates = [record.coefficients.learning_rate for record in [*first, *second]]
    assert rates == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3, 0.5e-3, 0.375e-3, 0.25e-3, 0.125e-3])


def test_updates_beyond_the_plan_keep_the_end_value() -> None:
    assert plan(learning_rate="linear(1e-3, 1e-4)").at(9, 5).learning_rate == 1e-4


def test_schedules_survive_saving() -> None:
    learner, other = (make_learner(learning_rate="linear(1e-3, 0)", n_epochs=1) for _ in range(2))
    iterate(learner, 3, 8)
    other.load_state_dict(learner.state_dict())
    (record,) = updates(other, 1, 8)
    assert record.update == 3
    assert record.coefficients.learning_rate == pytest.approx(1e-3 * 5 / 8)


def adapted(*kls: float, rate: float = 1e-3, target: float = 0.01) -> list[float]:
    adaptive = plan(learning_rate=rate, adaptive_lr_kl=target)
    rates = [adaptive.at(0, 100).learning_rate]
    for k, kl in enumerate(kls):
        adaptive.advance(adaptive.at(k, 100), kl, None)
        rates.append(adaptive.at(k + 1, 100).learning_rate)
    return rates


def test_the_learning_rate_falls_when_the_policy_moves_too_much_and_rises_when_too_little() -> None:
    """Target 0.01: above 0.02 down by 1.5, below 0.005 up by 1.5, in between as it is."""
    assert adapted(0.021, 0.5, 0.0049, 0.0, 0.0051, 0.019) == pytest.approx(
        [1e-3, 1e-3 / 1.5, 1e-3 / 1.5**2, 1e-3 / 1.5, 1e-3, 1e-3, 1e-3]
    )


@pytest.mark.parametrize(("kl", "limit"), [(1.0, RATE_LIMITS[0]), (0.0, RATE_LIMITS[1])])
def test_the_adapted_rate_has_limits(kl: float, limit: float) -> None:
    rates = adapted(*[kl] * 60)
    assert rates[-1] == limit
    assert all(RATE_LIMITS[0] <= rate <= RATE_LIMITS[1] for rate in rates)


def test_a_kl_that_is_not_a_number_moves_nothing() -> None:
    assert adapted(float("nan")) == [1e-3, 1e-3]


@pytest.mark.parametrize(("rate", "direction"), [(1e-5, 1), (3e-2, -1)])
def test_a_run_finds_its_learning_rate(rate: float, direction: int) -> None:
    learner = make_learner(learning_rate=rate, adaptive_lr_kl=0.01, n_epochs=4)
    records = updates(learner, 8)
    rates = [record.coefficients.learning_rate for record in records]
    assert (rates[-1] - rates[0]) * direction > 0
    for before, record, after in zip(rates, records, rates[1:], strict=False):
        if record.kl_last > 0.02:
            assert after < before
        if record.kl_last < 0.005:
            assert after > before


def test_the_adapted_rate_is_the_one_that_moves_the_parameters() -> None:
    """Adam's steps are at most one learning rate long, and the first is just that."""
    learner = make_learner(learning_rate=1e-3, adaptive_lr_kl=0.01, n_epochs=2, batch_size=64)
    learner.plan.adapted_rate = 1e-5
    before = values_of(learner)
    iterate(learner, 1)
    assert 1e-5 < (values_of(learner) - before).abs().max().item() < 2.02e-5


def test_the_adapted_rate_survives_saving() -> None:
    adaptive = plan(learning_rate=1e-3, adaptive_lr_kl=0.01)
    adaptive.advance(adaptive.at(0, 9), 1.0, None)
    twin = plan(learning_rate=1e-3, adaptive_lr_kl=0.01)
    twin.load_state_dict(json.loads(json.dumps(adaptive.state_dict())))
    assert twin.at(1, 9) == adaptive.at(1, 9)
    assert twin.at(1, 9).learning_rate == pytest.approx(1e-3 / 1.5)


def decayed(returns: list[float | None], spec: str) -> list[float]:
    decaying = plan(ent_coef=spec)
    found = []
    for k, mean_return in enumerate(returns):
        found.append(decaying.at(k, 1000).ent_coef)
        decaying.advance(decaying.at(k, 1000), 0.0, mean_return)
    return found


def test_entropy_decays_to_its_floor_and_stays_there() -> None:
    found = decayed([float(k) for k in range(20)], "decay(0.1, 0.02, 8)")
    assert found[:9] == pytest.approx([0.1 - 0.01 * k for k in range(9)])
    assert found[9:] == pytest.approx([0.02] * 11)
    assert min(found) >= 0.02


def test_a_plateau_of_the_return_delays_the_decay() -> None:
    """A window of 4 is full after the fourth update; from then on a constant return is a plateau, 8 times at most."""
    found = decayed([5.0] * 30, "decay(0.1, 0.02, 8, 4)")
    assert found[:4] == pytest.approx([0.1, 0.09, 0.08, 0.07])
    assert found[4:12] == pytest.approx([0.07] * 8)
    assert found[-1] == pytest.approx(0.02)
    assert min(found) >= 0.02


def test_a_tolerance_makes_slow_progress_a_plateau() -> None:
    rising = [0.01 * k for k in range(8)]
    assert decayed([*rising], "decay(0.1, 0.02, 8, 4, 1.0)")[7] > decayed([*rising], "decay(0.1, 0.02, 8, 4)")[7]


def test_before_the_first_episode_has_ended_there_is_no_plateau() -> None:
    assert decayed([None] * 9, "decay(0.1, 0.02, 8, 4)")[8] == pytest.approx(0.02)


def test_the_decay_survives_saving() -> None:
    learner, other = (make_learner(ent_coef="decay(0.1, 0.01, 8)", n_epochs=1) for _ in range(2))
    iterate(learner, 3, 20)
    other.load_state_dict(learner.state_dict())
    assert [r.coefficients.ent_coef for r in updates(learner, 3, 20)] == [
        r.coefficients.ent_coef for r in updates(other, 3, 20)
    ]


def test_the_clock_of_the_decay_is_the_number_of_updates() -> None:
    learner = make_learner(ent_coef="decay(0.1, 0.02, 8)", n_epochs=1)
    found = [record.coefficients.ent_coef for record in updates(learner, 4, 1000)]
    assert found == pytest.approx([0.1, 0.09, 0.08, 0.07])


@pytest.mark.parametrize("field", ["ent_coef", "learning_rate", "clip_range"])
def test_a_decay_inside_a_warmup_is_refused_not_ignored(field: str) -> None:
    """P12, Y04: decay reacts to returns and has no place inside another schedule."""
    with pytest.raises(ConfigError, match="decay"):
        from_flat(**{field: "warmup(0.1, decay(0.1, 0.01, 10))"})


@pytest.mark.parametrize("spec", ["decay(0.1, 0.01, 10, 1)", "decay(0.1, 0.01, 10, -2)", "decay(0.1, 0.01, inf)"])
def test_a_decay_that_cannot_be_is_refused_before_anything_starts(spec: str) -> None:
    """Y04."""
    with pytest.raises(ConfigError, match="ent_coef"):
        from_flat(ent_coef=spec)


def test_defaults_are_constant() -> None:
    constant = CoefficientPlan(PPOConfig())
    first = constant.at(0, 10)
    assert constant.at(9, 10) == first
    assert (first.learning_rate, first.clip_range, first.clip_range_vf) == (3e-4, 0.2, None)
    assert (first.ent_coef, first.vf_coef) == (0.0, 0.5)


@pytest.mark.parametrize("shared", [False, True])
def test_the_critics_own_rate_moves_only_its_own_parts(shared: bool) -> None:
    """The first step of Adam is one learning rate long; a trunk that is shared is no part of the critic's own."""
    policy = {"hidden_sizes": (16,), "shared": shared}
    rates: dict[str, Any] = {"learning_rate": 1e-3, "critic_learning_rate": 5e-3}
    learner = make_learner(**rates, n_epochs=1, batch_size=64, policy=policy, adam_eps=1e-12)
    before = values_of(learner)
    (record,) = iterate(learner, 1)
    moved = by_part(learner, (values_of(learner) - before).abs())
    own = set(learner.policy.critic_parts())
    assert own == ({"critic"} if shared else {"critic", "value_encoder"})
    for part, change in moved.items():
        assert change.max().item() == pytest.approx(5e-3 if part in own else 1e-3, rel=0.02)
    assert record.update.metrics()["train/critic_learning_rate"] == 5e-3
    assert record.update.metrics()["train/learning_rate"] == 1e-3


def test_the_critics_own_rate_follows_its_own_schedule() -> None:
    both = plan(learning_rate="linear(1e-3, 0)", critic_learning_rate="linear(4e-3, 2e-3)")
    assert both.at(5, 10).learning_rate == pytest.approx(5e-4)
    assert both.at(5, 10).critic_learning_rate == pytest.approx(3e-3)
    assert plan(learning_rate=1e-3).at(5, 10).critic_learning_rate is None
