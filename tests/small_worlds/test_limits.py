"""Worlds whose best policy under a limit is known, in short runs; `surefoot bench risk` makes long ones (R02, R03)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from surefoot.bench.risk_cases import WORLDS
from surefoot.bench.risk_report import flips, judge
from surefoot.bench.risk_runs import train

UPDATES = {"arm": 70, "portfolio": 400, "cliff": 80, "costly": 35}
TOLERANCE = 0.1
"""Of the limit and of the best feasible return: twice what the long runs are held to."""


@pytest.mark.parametrize("name", WORLDS)
def test_the_policy_is_about_the_best_one_without_a_limit_and_under_two(name: str) -> None:
    world = WORLDS[name]()
    world = replace(world, updates=UPDATES[name], settings=world.settings | {"n_envs": 64})
    found = [judge(world, limit, [train(world, limit, 0, 4000)]) for limit in (None, *world.limits)]
    for outcome in found:
        assert outcome.losses[0] <= TOLERANCE, outcome
        assert max(outcome.violations, default=0.0) <= TOLERANCE, outcome
    assert flips(found)
