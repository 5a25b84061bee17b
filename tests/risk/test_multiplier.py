"""The dual variable (R03)."""

from __future__ import annotations

import json

import pytest

from risk.rollouts import settings
from surefoot.config.schedule import parse_schedule
from surefoot.risk.multiplier import Multiplier


def multiplier(**more: float) -> Multiplier:
    fields = {"multiplier_kp": 0.0} | {f"multiplier_{name}": value for name, value in more.items()}
    return Multiplier(settings("cvar_constraint", limit_per_episode=0.0, **fields))


def test_plain_dual_ascent_by_hand() -> None:
    """λ ← max(0, λ + ½·v): 0 + 1 = 1;  1 + 3 = 4, beyond 1;  4 − 1½ = 2½;  2½ − 5 < 0."""
    plain = multiplier()
    assert [plain.update(v, 0.5) for v in (2.0, 6.0, -3.0, -10.0)] == [1.0, 4.0, 2.5, 0.0]


def test_plain_dual_ascent_also_goes_on_while_the_violation_shrinks() -> None:
    plain = multiplier()
    assert [plain.update(v, 1.0) for v in (3.0, 2.0, 1.0)] == [3.0, 5.0, 6.0]


def test_there_is_no_upper_bound() -> None:
    plain = multiplier()
    for _ in range(100):
        plain.update(1e6, 1.0)
    assert plain.value == 1e8


def test_the_largest_violation_pushes_most() -> None:
    pushes = [multiplier(kp=2.0).update(v, 0.1) for v in (0.5, 5.0, 500.0, 5e7)]
    assert pushes == sorted(pushes)
    assert pushes[-1] == pytest.approx(1.05e8)


def test_it_starts_where_it_is_told() -> None:
    started = multiplier(init=3.0)
    assert started.value == 3.0
    assert started.update(1.0, 0.25) == 3.25


def test_proportional_and_derivative_terms_by_hand() -> None:
    """β = ½, k_p = 2, k_d = 4, η = 1. While the violation grows, g = 1.

    v = 4: s = 4, I = 4,  λ = 4 + 8 + 0 = 12
    v = 8: s = 6, I = 12, λ = 12 + 12 + 4·2 = 32
    """
    damped = multiplier(kp=2.0, kd=4.0, smoothing=0.5)
    assert [damped.update(v, 1.0) for v in (4.0, 8.0)] == [12.0, 32.0]
    assert damped.integral == 12.0


def test_a_violation_that_is_being_dealt_with_does_not_wind_up_the_integral() -> None:
    """One that falls by 4 % in each update: plain ascent adds up 25 of the first, the damped integral a fraction."""
    plain, damped = multiplier(), multiplier(kp=10.0, smoothing=0.5)
    for t in range(200):
        plain.update(0.96**t, 1.0)
        damped.update(0.96**t, 1.0)
    assert plain.integral == pytest.approx(25.0, rel=0.01)
    assert damped.integral < 8.0


def test_a_violation_that_shrinks_forever_moves_it_as_plain_ascent_does() -> None:
    """R07: 1 + 1/t for 2,000 updates."""
    plain, damped = multiplier(), multiplier(kp=10.0, smoothing=0.5)
    for t in range(1, 2001):
        plain.update(1.0 + 1.0 / t, 2.0)
        damped.update(1.0 + 1.0 / t, 2.0)
    assert plain.integral > 4000.0
    assert damped.integral > 0.98 * plain.integral


def test_the_default_rate_never_ends_at_zero() -> None:
    """R07: or the multiplier would be dead in every later training."""
    rate = parse_schedule(settings("cvar_constraint", limit_per_episode=0.0).multiplier_lr)
    assert min(rate.all_values()) > 0.0


def test_it_goes_on_from_its_state() -> None:
    first, second = (multiplier(kp=2.0, kd=1.0, init=0.5) for _ in range(2))
    first.update(3.0, 0.1)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.value == first.value
    assert second.update(-1.0, 0.1) == first.update(-1.0, 0.1)
