"""Which family a space gets, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from surefoot.actions.beta import BetaFamily
from surefoot.actions.diagonal_gaussian import DiagonalGaussianFamily
from surefoot.actions.registry import family_for
from surefoot.actions.tanh_gaussian import TanhGaussianFamily
from surefoot.errors import ConfigError, UnsupportedSpaceError

UNIT = spaces.Box(-1.0, 1.0, (2,))


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("auto", DiagonalGaussianFamily),
        ("gaussian", DiagonalGaussianFamily),
        ("tanh_gaussian", TanhGaussianFamily),
        ("beta", BetaFamily),
    ],
)
def test_kind_chooses_the_family_of_a_box(kind: Any, family: type) -> None:
    assert type(family_for(UNIT, kind)) is family


def test_log_std_is_a_state_independent_parameter_or_an_output_of_the_network() -> None:
    own = family_for(UNIT, "gaussian", log_std_init=-0.5)
    assert own.n_outputs == 2
    assert own.state_independent is not None
    assert own.state_independent.tolist() == [-0.5, -0.5]
    dependent = family_for(UNIT, "gaussian", log_std_init=-0.5, state_dependent_std=True)
    assert dependent.n_outputs == 4
    assert dependent.state_independent is None
    at_start = own.bind(torch.tensor([[0.0, 0.0, -0.5, -0.5]]))
    torch.testing.assert_close(dependent.bind(torch.zeros(1, 4)).entropy(), at_start.entropy())


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(3),
        spaces.Sequence(spaces.Discrete(2)),
    ],
)
def test_an_unsupported_space_is_named_with_what_is_supported(space: spaces.Space[Any]) -> None:
    with pytest.raises(UnsupportedSpaceError, match=r"No action distribution for .*Supported: Discrete, Multi") as e:
        family_for(space)
    assert str(space) in str(e.value)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_an_integer_box_is_refused_with_advice(dtype: Any) -> None:
    with pytest.raises(UnsupportedSpaceError, match="MultiDiscrete"):
        family_for(spaces.Box(0, 9, (2,), dtype))


@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (0,)), spaces.MultiDiscrete([])], ids=str)
def test_an_empty_space_is_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(UnsupportedSpaceError, match="empty"):
        family_for(space)


@pytest.mark.parametrize("kind", ["tanh_gaussian", "beta"])
@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([-np.inf, -1], [np.inf, 1], "finite bounds"),
        ([0, 0], [np.inf, 1], "finite bounds"),
        ([-1.7e308, 0], [1.7e308, 1], "finite bounds"),
        ([0, 0], [0, 1], "no width"),
    ],
)
def test_bounded_kinds_need_bounds_with_width(kind: Any, low: Any, high: Any, message: str) -> None:
    space = spaces.Box(np.array(low, np.float64), np.array(high, np.float64), dtype=np.float64)
    with pytest.raises(ConfigError, match=message):
        family_for(space, kind)
    family_for(space, "gaussian")


@pytest.mark.parametrize(
    ("space", "options"),
    [
        (spaces.Discrete(2), {"kind": "gaussian"}),
        (spaces.MultiDiscrete([2, 2]), {"kind": "beta"}),
        (spaces.MultiBinary(2), {"kind": "tanh_gaussian"}),
        (spaces.Discrete(2), {"log_std_init": -1.0}),
        (spaces.Discrete(2), {"state_dependent_std": True}),
        (UNIT, {"kind": "beta", "log_std_init": -1.0}),
        (UNIT, {"kind": "beta", "state_dependent_std": True}),
    ],
)
def test_an_option_without_effect_is_an_error(space: spaces.Space[Any], options: dict[str, Any]) -> None:  # P12
    with pytest.raises(ConfigError, match="no effect"):
        family_for(space, **options)


@pytest.mark.parametrize("options", [{"kind": "gausian"}, {"log_std_init": 21.0}, {"log_std_init": float("nan")}])
def test_a_wrong_setting_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        family_for(UNIT, **options)
