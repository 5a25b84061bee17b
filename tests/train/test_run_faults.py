"""Short versions of the fault suites of a run; the long ones are run by `make faults`."""

from __future__ import annotations

import pytest

from faults import run_faults


@pytest.mark.timeout(120)
def test_training_goes_on_without_its_output() -> None:
    assert run_faults.lost_output([("reader gone", "full")])["problems"] == []


def test_a_full_disk_while_logging_does_not_end_training() -> None:
    assert run_faults.full_disk_while_logging(2)["problems"] == []


@pytest.mark.timeout(120)
def test_a_second_process_is_refused_with_the_first_ones_id_until_that_is_gone() -> None:
    assert run_faults.two_at_once(2)["problems"] == []


def test_an_env_that_exits_is_named_and_does_not_end_training() -> None:
    assert run_faults.system_exit((0,))["problems"] == []
