"""Limits that nothing keeps are named, slow ones are not."""

from __future__ import annotations

import warnings

import pytest

from surefoot.errors import SurefootWarning
from surefoot.risk.reachability import WINDOW, Reachability


def test_a_violation_that_does_not_fall_under_a_large_multiplier_is_named_once() -> None:
    watch = Reachability("CVaR_0.05 ≥ 3")
    for _ in range(2 * WINDOW - 1):
        assert watch.update(0.8, 100.0) == {}
    with pytest.warns(SurefootWarning, match=r"CVaR_0\.05 ≥ 3 looks out of reach.*loosen the limit"):
        assert watch.update(0.8, 100.0) == {"warn/limit_unreachable": pytest.approx(0.8)}
    assert watch.update(0.8, 100.0)


@pytest.mark.parametrize(
    ("first", "last", "multiplier"),
    [(0.8, 0.4, 100.0), (0.01, 0.01, 100.0), (0.8, 0.8, 2.0), (-0.5, -0.5, 100.0)],
    ids=["falls", "noise", "small multiplier", "kept"],
)
def test_what_is_only_slow_is_not_named(first: float, last: float, multiplier: float) -> None:
    watch = Reachability("x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(2 * WINDOW + 5):
            assert watch.update(first if i < WINDOW else last, multiplier) == {}


def test_it_goes_on_from_its_state() -> None:
    first, second = Reachability("x"), Reachability("x")
    for _ in range(2 * WINDOW - 1):
        first.update(1.0, 50.0)
    second.load_state_dict(first.state_dict())
    with pytest.warns(SurefootWarning, match="out of reach"):
        assert second.update(1.0, 50.0)
