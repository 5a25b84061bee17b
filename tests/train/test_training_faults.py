"""Short versions of the fault suites of a whole training; the long ones are run by `make faults`."""

from __future__ import annotations

import pytest

from faults import training_faults
from faults.report import GOALS, page, suites


@pytest.mark.timeout(120)
def test_every_number_that_is_not_finite_is_named_and_followed_by_no_step() -> None:
    assert training_faults.non_finite() == {"cases": 72, "caught": 72, "missed": []}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", training_faults.CONFIGURATIONS)
def test_a_run_cut_in_two_equals_an_uninterrupted_one(name: str) -> None:
    assert training_faults.resume(2, [name])["problems"] == []


@pytest.mark.timeout(120)
def test_memory_and_open_files_stay_as_they_are() -> None:
    figures = training_faults.soak(0.06)
    assert figures["open_files_at_end"] == figures["open_files_after_warm_up"]
    assert figures["megabytes_at_end"] <= 1.05 * figures["megabytes_after_warm_up"]


def test_every_suite_has_a_goal_and_a_row() -> None:
    assert list(suites(quick=False, soak_minutes=20)) == list(GOALS)
    shown = page({})
    assert all(f"`{name}`" in shown for name in GOALS)
