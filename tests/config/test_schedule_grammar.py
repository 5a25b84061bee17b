"""Coefficients are numbers or written schedules; what cannot be understood or cannot act is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.config import from_flat
from surefoot.config.schedule import ScheduleSpec, parse_schedule
from surefoot.errors import ConfigError

COEFFICIENTS = ("learning_rate", "clip_range", "clip_range_vf", "vf_coef", "ent_coef")


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        (3e-4, ScheduleSpec("constant", (3e-4,))),
        (1, ScheduleSpec("constant", (1.0,))),
        ("3e-4", ScheduleSpec("constant", (3e-4,))),
        ("linear(1e-3, 0)", ScheduleSpec("linear", (1e-3, 0.0))),
        ("  linear(1e-3,0) ", ScheduleSpec("linear", (1e-3, 0.0))),
        ("cosine( 1e-3 , 1e-5 )", ScheduleSpec("cosine", (1e-3, 1e-5))),
        ("piecewise(0: 1e-3, 0.5: 1e-4, 1: 0)", ScheduleSpec("piecewise", (1e-3, 1e-4, 0.0), (0.0, 0.5, 1.0))),
        (
            "warmup(0.1, linear(1e-3, 0))",
            ScheduleSpec("warmup", (), (0.1,), ScheduleSpec("linear", (1e-3, 0.0))),
        ),
        ("warmup(0.1, 1e-3)", ScheduleSpec("warmup", (), (0.1,), ScheduleSpec("constant", (1e-3,)))),
        ("decay(0.01, 0.001, 400)", ScheduleSpec("decay", (0.01, 0.001), (400.0,))),
        ("decay(0.01, 0.001, 400, 20, 0.5)", ScheduleSpec("decay", (0.01, 0.001), (400.0, 20.0, 0.5))),
    ],
)
def test_each_form_is_read(text: float | str, spec: ScheduleSpec) -> None:
    assert parse_schedule(text) == spec


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "neither a number nor a schedule"),
        ("fast", "neither a number nor a schedule"),
        ("linear(1e-3, 0", "neither a number nor a schedule"),
        ("linear 1e-3 0", "neither a number nor a schedule"),
        ("linear()", "linear takes (start, end)"),
        ("linear(1)", "linear takes (start, end)"),
        ("linear(1, 0, 0)", "linear takes (start, end)"),
        ("linear(a, b)", "'a' is neither a number"),
        ("linear(linear(1, 0), 0)", "neither a number"),
        ("exponential(1, 0)", "unknown schedule 'exponential'"),
        ("cosine(1)", "cosine takes (start, end)"),
        ("piecewise(0: 1)", "at least two"),
        ("piecewise(0, 1)", "at least two"),
        ("piecewise(0: 1, 1: 2: 3)", "at least two"),
        ("piecewise(0: 1, 0: 2)", "must rise"),
        ("piecewise(0.5: 1, 0.2: 2)", "must rise"),
        ("piecewise(0: 1, 2: 0)", "must rise within [0, 1]"),
        ("piecewise(nan: 1, 1: 0)", "must rise"),
        ("warmup(0.1)", "warmup takes (fraction, schedule)"),
        ("warmup(0, 1)", "(0, 1)"),
        ("warmup(1, 1)", "(0, 1)"),
        ("warmup(nan, 1)", "(0, 1)"),
        ("warmup(0.1, flat(1))", "unknown schedule 'flat'"),
        ("decay(1, 0)", "decay takes"),
        ("decay(1, 0, 1, 1, 1, 1)", "decay takes"),
        ("decay(0.1, 0.2, 10)", "floor <= start"),
        ("decay(1, 0, 0)", "at least one update"),
    ],
)
def test_what_is_not_understood_is_said(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_schedule(text)
    assert part in str(caught.value)
    with pytest.raises(ConfigError) as refused:
        from_flat(ent_coef=text)
    assert str(refused.value).startswith(f"ppo.ent_coef = {text!r}: ")
    assert part in str(refused.value)


@given(st.text(alphabet="linearcosd(),:0123456789.e-+ \n", max_size=30))
def test_any_text_is_read_or_refused_with_a_value_error(text: str) -> None:
    try:
        spec = parse_schedule(text)
    except ValueError:
        return
    assert spec.all_values()


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize("text", ["linear(1e-3, 0)", "cosine(1, 0)", "warmup(0.5, 1e-3)", "piecewise(0: 1, 1: 0)"])
def test_every_coefficient_takes_schedules(name: str, text: str) -> None:
    assert getattr(from_flat(**{name: text}).ppo, name) == text


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_a_constant_written_as_text_becomes_its_number(name: str) -> None:
    assert getattr(from_flat(**{name: "0.5"}).ppo, name) == 0.5


@pytest.mark.parametrize("name", [name for name in COEFFICIENTS if name != "ent_coef"])
@pytest.mark.parametrize("text", ["decay(0.5, 0.1, 10)", "warmup(0.1, decay(0.5, 0.1, 10))"])
def test_decay_is_refused_outside_entropy(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"decay\(…\) is for ent_coef"):
        from_flat(**{name: text})


def test_decay_is_taken_for_entropy() -> None:
    assert from_flat(ent_coef="decay(0.5, 0.1, 10)").ppo.ent_coef == "decay(0.5, 0.1, 10)"


def test_decay_inside_a_warmup_is_refused() -> None:
    """Decay reacts to the return, a warm-up is a function of the update: the two do not nest."""
    with pytest.raises(ConfigError, match="decay"):
        from_flat(ent_coef="warmup(0.1, decay(0.5, 0.1, 10))")


@pytest.mark.parametrize(
    "text",
    [
        "decay(0.5, 0.1, inf)",
        "decay(0.5, 0.1, 10.5)",
        "decay(0.5, 0.1, 10, 0)",
        "decay(0.5, 0.1, 10, 2.5)",
        "decay(0.5, 0.1, 10, -1)",
        "decay(0.5, 0.1, 10, 20, -1)",
        "decay(0.5, 0.1, 10, 20, nan)",
    ],
)
def test_counts_of_decay_are_whole_and_positive(text: str) -> None:
    with pytest.raises(ConfigError, match="decay"):
        from_flat(ent_coef=text)


@pytest.mark.parametrize("value", ["nan", "inf", "linear(nan, 0)", "linear(inf, 0)", "cosine(1, -inf)"])
def test_schedules_name_finite_numbers_only(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"ppo\.learning_rate"):
        from_flat(learning_rate=value)
