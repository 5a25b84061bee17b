"""The benchmark of limits: what is kept of a run, and how the page judges it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import risk_limits
import risk_worlds
from kept_runs import RESULTS, finished, keep
from risk_limits import RiskJob, settings_of, wanted_settings
from risk_report import flips, judge, write_report
from risk_worlds import WORLDS

ARM = WORLDS["arm"]()
BEST = {limit: ARM.best_return(limit) for limit in (None, *ARM.limits)}


def record(limit: float | None, seed: int = 0, **more: Any) -> dict[str, Any]:
    """Of an agent that does the best thing."""
    return {
        "world": "arm",
        "limit": limit,
        "seed": seed,
        "settings": settings_of(ARM, limit),
        "episodes": 10_000,
        "mean": BEST[limit],
        "limited": -4.0 if limit is None else limit,
        "trait": ARM.best_trait(limit),
        "multiplier": None if limit is None else 1.0,
        "wall_seconds": 1.0,
        "versions": {"surefoot": "0.1.0"},
        **more,
    }


def page(results: Path, seeds: list[int], **tight: Any) -> str:
    """From records of all three limits; the last as given."""
    for limit in (None, *ARM.limits):
        more = tight if limit == ARM.limits[1] else {}
        keep(record(limit, **more), results / "risk" / "arm" / f"{limit}.json")
    return write_report(results, seeds, wanted_settings).read_text()


def test_best_policies_hold(tmp_path: Path) -> None:
    text = page(tmp_path, [0])
    assert "safe or risky arm" in text
    assert "yes, 1 of 1 seeds" in text
    assert "**no**" not in text


@pytest.mark.parametrize(
    "fault",
    [
        {"limited": 0.9 - 0.9 * 0.051},
        {"mean": 0.949 * BEST[0.9]},
        {"trait": 0.8},
    ],
    ids=["violation", "loss", "no flip"],
)
def test_a_fault_is_a_no(tmp_path: Path, fault: dict[str, Any]) -> None:
    assert "**no**" in page(tmp_path, [0], **fault)


def test_a_missing_seed_is_told(tmp_path: Path) -> None:
    assert "yes, 1 of 2 seeds" in page(tmp_path, [0, 1])


def test_one_bad_seed_of_two_is_enough() -> None:
    good, bad = record(-3.0), record(-3.0, limited=-3.16)
    assert judge(ARM, -3.0, [good, good]).holds
    assert not judge(ARM, -3.0, [good, bad]).holds


def test_without_both_limits_there_is_no_flip_to_judge() -> None:
    assert flips([judge(ARM, None, [record(None)]), judge(ARM, -3.0, [record(-3.0)])]) is None


def test_a_cost_above_its_limit_is_the_violation() -> None:
    costly = WORLDS["costly"]()
    found = judge(costly, 0.4, [record(None, mean=4.8, limited=0.42)])
    assert found.violations == pytest.approx((0.05,))
    assert found.losses == pytest.approx((0.0,))


def test_a_run_is_kept_with_the_settings_that_decide_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = replace(ARM, updates=2, settings={"n_envs": 4, "n_steps": 8})
    monkeypatch.setitem(risk_worlds.WORLDS, "arm", lambda: world)
    monkeypatch.setattr(risk_limits, "RESULTS", tmp_path)
    job = RiskJob("arm", None, 0, episodes=100)
    assert not finished(job.path(), wanted_settings)
    keep(job.run(), job.path())
    found = json.loads(job.path().read_text())
    assert found["episodes"] == 100
    assert 0.0 <= found["trait"] <= 1.0
    assert finished(job.path(), wanted_settings)
    keep(found | {"settings": found["settings"] | {"gamma": 0.5}}, job.path())
    with pytest.raises(SystemExit, match=r"made with other settings \(gamma\)"):
        finished(job.path(), wanted_settings)


def test_kept_runs_are_those_of_the_settings_of_today() -> None:
    paths = sorted((RESULTS / "risk").glob("*/*.json"))
    assert all(finished(path, wanted_settings) for path in paths)
