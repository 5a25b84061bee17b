"""`surefoot bench risk`: what is kept, what is judged, and what the exit code says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.commands import Surefoot
from surefoot.bench import risk_cases
from surefoot.bench.risk_cases import WORLDS, World
from surefoot.bench.risk_report import flips, judge
from surefoot.bench.risk_runs import Job, keep, settings_of

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
        "seconds": 1.0,
        "versions": {"surefoot": "0.1.0"},
        **more,
    }


def kept(results: Path, **tight: Any) -> None:
    """Records of all three limits; the last as given."""
    for limit in (None, *ARM.limits):
        more = tight if limit == ARM.limits[1] else {}
        keep(record(limit, **more), Job("arm", limit, 0).path(results))


def report(surefoot: Surefoot, results: Path) -> tuple[int, str]:
    ended = surefoot("bench", "risk", "--results", results, "--seeds", "0", "--report")
    assert ended.out.strip() == (results / "risk.md").read_text().strip()
    return ended.code, ended.out


def test_best_policies_hold(surefoot: Surefoot, tmp_path: Path) -> None:
    kept(tmp_path)
    code, text = report(surefoot, tmp_path)
    assert code == 0
    assert "safe or risky arm" in text
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
def test_a_fault_is_a_no_and_an_exit_code(surefoot: Surefoot, tmp_path: Path, fault: dict[str, Any]) -> None:
    kept(tmp_path, **fault)
    code, text = report(surefoot, tmp_path)
    assert code == 1
    assert "**no**" in text


def test_a_missing_seed_is_told_and_no_success(surefoot: Surefoot, tmp_path: Path) -> None:
    kept(tmp_path)
    ended = surefoot("bench", "risk", "--results", tmp_path, "--seeds", "0", "1", "--report")
    assert ended.code == 1
    assert "yes, 1 of 2 seeds" in ended.out


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


def test_runs_are_kept_and_not_run_again(surefoot: Surefoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(**{**vars(ARM), "updates": 2, "settings": {"n_envs": 4, "n_steps": 8}})
    monkeypatch.setitem(risk_cases.WORLDS, "arm", lambda: world)
    words = ("bench", "risk", "--results", tmp_path, "--worlds", "arm", "--seeds", "0", "--episodes", "100")
    first = surefoot(*words)
    assert "3 runs, 0 kept from before, 3 to do" in first.err
    path = Job("arm", None, 0).path(tmp_path)
    found = json.loads(path.read_text())
    assert found["episodes"] == 100
    assert 0.0 <= found["trait"] <= 1.0
    before = path.stat().st_mtime_ns
    assert "3 runs, 3 kept from before, 0 to do" in surefoot(*words).err
    assert path.stat().st_mtime_ns == before
    keep(found | {"settings": found["settings"] | {"gamma": 0.5}}, path)
    changed = surefoot(*words)
    assert changed.code == 2
    assert "made with other settings (gamma)" in changed.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--worlds", "arms"), ["'arms'", "arm, portfolio, cliff, costly"]),
        (("--episodes", "0"), ["--episodes"]),
        (("--jobs", "0"), ["--jobs"]),
    ],
)
def test_mistakes_are_named(surefoot: Surefoot, tmp_path: Path, words: tuple[str, ...], named: list[str]) -> None:
    ended = surefoot("bench", "risk", "--results", tmp_path, *words)
    assert ended.code == 2
    for name in named:
        assert name in ended.err
