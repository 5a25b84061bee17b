"""Short versions of the fault suites of what comes from outside; the long ones are run by `make faults`."""

from __future__ import annotations

import pytest

from faults.env_faults import Case, faulty_envs, met, names
from faults.env_state_faults import FEW, unkept_env_states


def test_runs_whose_envs_cannot_be_kept_are_interrupted_and_go_on() -> None:
    assert unkept_env_states(FEW)["problems"] == []


def test_envs_that_break_their_contract_are_named() -> None:
    assert faulty_envs(40)["problems"] == []


@pytest.mark.parametrize(
    "case",
    [
        Case("code", "too large", "middle", "vector"),
        Case("code", "no integer", "last", "vector"),
        Case("info", "nothing", "reset", "vector"),
        Case("info", "pairs", "first", "vector"),
        Case("observation", "refusing", "last", "vector"),
        Case("observation", "of more axes", "last", "vector"),
        Case("observation", "NaN", "middle", "evaluation"),
        Case("action_mask", "nothing legal", "middle", "evaluation"),
        Case("action_mask", "refusing", "first", "single"),
        Case("action_mask", "refusing", "reset", "vector"),
    ],
    ids=str,
)
def test_a_fault_that_is_seldom_seen_names_env_and_step(case: Case) -> None:
    assert met(case).outcome == "named"


def test_an_error_counts_only_if_it_names_the_env_and_the_step() -> None:
    case = Case("reward", "NaN", "middle", "single")
    assert names(case, "reward is nan in env 1 at step 3")
    assert not names(case, "reward is nan in env 0 at step 3")
    assert not names(case, "reward is nan in env 1 at step 7")
