"""Settings of the section risk that cannot take effect are refused by name (P12, R03)."""

from __future__ import annotations

from typing import Any

import pytest

from surefoot.config import from_dict
from surefoot.errors import ConfigError


def validation_error(**risk: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        from_dict({"risk": risk})
    return str(caught.value)


@pytest.mark.parametrize(
    "risk",
    [
        {},
        {"kind": "cvar_objective"},
        {"kind": "cvar_objective", "alpha": 0.1, "cvar_weight": 1.0},
        {"kind": "cvar_constraint", "limit_per_episode": -1.0},
        {"kind": "cvar_constraint", "limit_discounted": 0.0, "alpha": 1.0, "multiplier_lr": "linear(1, 0)"},
        {"kind": "cvar_constraint", "limit_per_episode": -1.0, "multiplier_kp": 0.0},
        {"kind": "cost_constraint", "limit_per_episode": 25.0, "cost_key": "damage", "multiplier_init": 1.0},
    ],
)
def test_what_goes_together(risk: dict[str, Any]) -> None:
    from_dict({"risk": risk})


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.0001, float("nan")])
def test_alpha_lies_in_its_range(alpha: float) -> None:
    assert "risk.alpha" in validation_error(kind="cvar_objective", alpha=alpha)


@pytest.mark.parametrize("kind", ["cvar_constraint", "cost_constraint"])
def test_a_constraint_has_one_limit(kind: str) -> None:
    for limits in ({}, {"limit_per_episode": 1.0, "limit_discounted": 1.0}):
        message = validation_error(kind=kind, **limits)
        assert "risk.limit_per_episode" in message
        assert "risk.limit_discounted" in message
    assert "limit_per_step" in validation_error(kind=kind, limit_per_episode=1.0, limit_per_step=1.0)


def test_a_limit_per_step_is_of_the_return_and_knows_no_episodes() -> None:
    assert "limit_per_episode" in validation_error(kind="cost_constraint", limit_per_step=1.0)
    assert "observe_return" in validation_error(kind="cvar_constraint", limit_per_step=1.0, observe_return=True)


def test_a_limit_without_its_unit_is_answered_with_the_names_that_have_one() -> None:
    message = validation_error(kind="cvar_constraint", limit=-3.0)
    assert "limit_per_episode" in message


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("none", "alpha", 0.1),
        ("none", "limit_per_episode", 1.0),
        ("none", "cvar_weight", 0.1),
        ("none", "cost_key", "damage"),
        ("cvar_objective", "limit_per_episode", 1.0),
        ("cvar_objective", "limit_discounted", 1.0),
        ("cvar_objective", "multiplier_lr", 0.1),
        ("cvar_objective", "multiplier_init", 0.1),
        ("cvar_objective", "multiplier_kp", 0.1),
        ("cvar_objective", "multiplier_kd", 0.1),
        ("cvar_objective", "multiplier_smoothing", 0.1),
        ("cvar_objective", "cost_key", "damage"),
        ("cvar_constraint", "cvar_weight", 0.1),
        ("cvar_constraint", "cost_key", "damage"),
        ("cost_constraint", "alpha", 0.1),
        ("cost_constraint", "cvar_weight", 0.1),
    ],
)
def test_a_field_that_the_kind_does_not_read_is_refused(kind: str, field: str, value: Any) -> None:
    limit = {"limit_per_episode": 1.0} if kind.endswith("constraint") else {}
    message = validation_error(kind=kind, **(limit | {field: value}))
    assert f"risk.{field} needs risk.kind" in message
    assert f'"{kind}"' in message


def test_cvar_of_all_episodes_is_no_objective() -> None:
    assert "risk.alpha = 1" in validation_error(kind="cvar_objective", alpha=1.0)


def test_a_multiplier_that_cannot_move_is_refused() -> None:
    still = {"multiplier_lr": 0.0, "multiplier_kp": 0.0}
    assert "multiplier_lr" in validation_error(kind="cvar_constraint", limit_per_episode=0.0, **still)
    fixed = {"kind": "cvar_constraint", "limit_per_episode": 0.0, "multiplier_init": 1.0}
    from_dict({"risk": fixed | still})


def test_smoothing_without_a_damping_term_is_refused() -> None:
    undamped = {"kind": "cvar_constraint", "limit_per_episode": 0.0, "multiplier_kp": 0.0}
    assert "risk.multiplier_smoothing" in validation_error(**undamped, multiplier_smoothing=0.2)


@pytest.mark.parametrize("field", ["multiplier_lr", "multiplier_init", "multiplier_kp", "multiplier_kd"])
def test_negative_coefficients_are_refused(field: str) -> None:
    assert f"risk.{field}" in validation_error(kind="cvar_constraint", limit_per_episode=0.0, **{field: -0.1})


def test_the_multiplier_rate_takes_no_entropy_schedule() -> None:
    message = validation_error(kind="cvar_constraint", limit_per_episode=0.0, multiplier_lr="decay(1, 0, 10)")
    assert "risk.multiplier_lr" in message
    assert "ent_coef" in message
