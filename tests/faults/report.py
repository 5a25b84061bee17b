"""Runs the long fault suites and writes docs/reliability.md: ``make faults``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults import (
    boundary_faults,
    contents,
    env_faults,
    env_state_faults,
    run_faults,
    store_faults,
    training_faults,
    worker_faults,
)
from faults.worker_faults import Watchdog

DOCS = Path(__file__).resolve().parents[2] / "docs"
KEPT = DOCS / "reliability.json"

SUITE_SECONDS = 3600.0
"""A suite that takes longer hangs, which is a failure: the program ends with a traceback."""

Figures = dict[str, Any]


def planted_code() -> Figures:
    """Of the room that compiles, which may be missing."""
    from fast import planted_code as suite

    return suite.planted_code()


def suites(quick: bool, soak_minutes: float) -> dict[str, Callable[[], Figures]]:
    """Every suite by name; each can be run alone, and is kept in docs/reliability.json."""
    few = quick
    return {
        "crash_at_every_operation": store_faults.crash_at_every_operation,
        "power_cut_at_every_operation": store_faults.power_cut_at_every_operation,
        "kill_while_saving": lambda: store_faults.kill_while_saving(10 if few else 200),
        "fail_at_every_operation": store_faults.fail_at_every_operation,
        "limit_file_size": store_faults.limit_file_size,
        "corrupt_newest": lambda: store_faults.corrupt_newest(100 if few else 1000),
        "read_malicious": store_faults.read_malicious,
        "wicked_contents": lambda: contents.wicked_contents(100 if few else None),
        "code_in_files": boundary_faults.code_in_files,
        "planted_code": planted_code,
        "any_space": lambda: boundary_faults.any_space(20 if few else 300),
        "unkept_env_states": lambda: env_state_faults.unkept_env_states(env_state_faults.FEW if few else None),
        "faulty_envs": lambda: env_faults.faulty_envs(50 if few else None),
        "non_finite": training_faults.non_finite,
        "guard_cost": training_faults.guard_cost,
        "env_raises": lambda: worker_faults.env_raises(steps=20_000 if few else 200_000),
        "worker_faults": lambda: worker_faults.worker_faults(10 if few else 100),
        "parent_killed": lambda: worker_faults.parent_killed(10 if few else 100),
        "signals": lambda: training_faults.signals(5 if few else 100),
        "hangup": run_faults.hangup,
        "lost_output": lambda: run_faults.lost_output([("reader gone", "full")] if few else None),
        "full_disk_while_logging": lambda: run_faults.full_disk_while_logging(4 if few else 100),
        "two_at_once": lambda: run_faults.two_at_once(4 if few else 100),
        "system_exit": lambda: run_faults.system_exit((0,) if few else (0, 2)),
        "resume": lambda: training_faults.resume(3 if few else 5),
        "soak": lambda: training_faults.soak(0.5 if few else soak_minutes),
    }


@dataclass(frozen=True)
class Goal:
    """What a suite must show, in words and as a condition on its figures."""

    failure: str
    how: str
    words: str
    holds: Callable[[Figures], bool]


def clean(found: Figures) -> bool:
    """No suite-specific list of what went wrong has an entry."""
    return not any(found.get(key) for key in ("failures", "missed", "problems"))


GOALS: dict[str, Goal] = {
    "crash_at_every_operation": Goal(
        "kill −9 while saving",
        "a crash at every single file operation",
        "100 % of points",
        lambda f: clean(f) and f["survived"] == f["points"],
    ),
    "power_cut_at_every_operation": Goal(
        "power cut while saving",
        "lose all that was not synced, at every operation",
        "100 % of states",
        lambda f: clean(f) and f["survived"] == f["states"],
    ),
    "kill_while_saving": Goal(
        "kill −9 while saving",
        "SIGKILL of a saver at random moments",
        "200 kills, 0 unreadable, at most the save in flight lost",
        lambda f: f["kills"] >= 200 and f["unreadable"] == f["lost"] == 0,
    ),
    "fail_at_every_operation": Goal(
        "full or read-only disk",
        "ENOSPC, EACCES, … at each operation",
        "100 % raise a named error, no old checkpoint damaged, no temporary left",
        lambda f: clean(f) and f["named_error"] == f["old_intact"] == f["no_temporary_left"] == f["points"],
    ),
    "limit_file_size": Goal(
        "full disk",
        "RLIMIT_FSIZE",
        "100 % raise a named error, no old checkpoint damaged, no temporary left",
        lambda f: clean(f) and f["named_error"] == f["old_intact"] == f["no_temporary_left"] == f["limits"],
    ),
    "corrupt_newest": Goal(
        "corrupt checkpoint",
        "byte flips, truncations, swapped and missing files",
        "1,000 of 1,000 detected, previous good one used, both named",
        lambda f: clean(f) and f["detected"] == f["corruptions"] >= 1000,
    ),
    "read_malicious": Goal(
        "malicious checkpoint",
        "pickles in every place, header bombs, overlapping tensors, huge shapes, deep JSON, `..` names",
        "≥ 40 files, 0 executions, 0 tracebacks, memory ≤ 2 × file + 64 MB",
        lambda f: clean(f) and f["files"] >= 40 and f["executions"] == f["foreign_errors"] == f["over_memory"] == 0,
    ),
    "wicked_contents": Goal(
        "sealed checkpoint with wicked contents",
        "missing, wrong, huge values in every place; tensors of other names, shapes, dtypes, NaN; settings that ask "
        "for gigabytes; loaded and asked for an action",
        "≥ 380 files, 0 executions, 0 tracebacks, 0 answers that are not finite, memory ≤ 2 × file + 64 MB over a good "
        "load, none takes 5 s",
        lambda f: (
            clean(f)
            and f["files"] >= 380
            and f["executions"] == f["foreign_errors"] == f["not_finite"] == f["over_memory"] == f["slow"] == 0
            and f["hangs_and_crashes"] == f["wrongly_accepted"] == 0
        ),
    ),
    "code_in_files": Goal(
        "code in files",
        "every way to name a module or program, in a checkpoint, a run and a configuration; loaded, evaluated, "
        "resumed, trained",
        "all refused with one message, 0 executions",
        lambda f: clean(f) and f["refused"] == f["files"] >= 80 and f["executions"] == 0,
    ),
    "planted_code": Goal(
        "planted code",
        "compiled code of others in directories that they can write, own or link to; gradient steps and memory, new "
        "and resumed; the same code does run from a private directory",
        "0 executions, all train on uncompiled and say why",
        lambda f: (
            clean(f) and f["trained_uncompiled"] == f["cases"] >= 32 and f["executions"] == 0 and f["runs_if_private"]
        ),
    ),
    "any_space": Goal(
        "unusual spaces",
        "random nested spaces, trained, saved, loaded and trained on",
        "300 of 300 equal to the uninterrupted one, bit for bit",
        lambda f: clean(f) and f["equal"] == f["spaces"] >= 300,
    ),
    "unkept_env_states": Goal(
        "env that cannot be saved",
        "states of every wrong kind, from the start or later; single, vector env, worker; runs to the end and "
        "interrupted in mid-rollout",
        "≥ 100 runs, none lost, exact just where it is, every checkpoint goes on",
        lambda f: clean(f) and f["runs"] >= 100 and f["lost"] == f["wrongly_exact_or_not"] == f["not_gone_on"] == 0,
    ),
    "faulty_envs": Goal(
        "env that breaks its contract",
        "wrong kinds of observation, reward, cost, is_success, mask, info, answer, exception; at reset, first, middle "
        "and last step; single, vector env, worker, evaluation",
        "≥ 1,000 cases, all an error that names env and step, 0 foreign errors, no weight moved",
        lambda f: (
            clean(f)
            and f["named"] == f["cases"] >= 1000
            and f["foreign_errors"] == f["weights_not_finite"] == f["weights_moved"] == 0
        ),
    ),
    "non_finite": Goal(
        "NaN, ±Inf",
        "3 values × 8 places × first, middle, last step",
        "72 of 72 named, no optimizer step after it",
        lambda f: clean(f) and f["caught"] == f["cases"] == 72,
    ),
    "guard_cost": Goal(
        "NaN, ±Inf",
        "time of the checks against time of training",
        "≤ 1 % of training",
        lambda f: f["of_training"] <= 0.01,
    ),
    "env_raises": Goal(
        "env raises",
        "p = 0.0005 per step, 4 workers",
        "200k steps, run completes, restarts counted exactly",
        lambda f: f["env_steps"] >= 200_000 and f["completed"] and f["raised"] == f["counted"] > 0,
    ),
    "worker_faults": Goal(
        "worker killed, hung, stopped",
        "from outside at random moments and from within",
        "100 times replaced or clean error within timeout + 1 s, 0 deadlocks",
        lambda f: f["replaced"] + f["clean_errors"] == f["faults"] >= 100 and f["late"] == f["deadlocks"] == 0,
    ),
    "parent_killed": Goal(
        "parent killed",
        "SIGKILL at random moments, start-up included",
        "100 times, 0 orphans after 2 s, 0 shared-memory segments left",
        lambda f: f["kills"] >= 100 and f["orphans"] == f["segments_left"] == 0,
    ),
    "signals": Goal(
        "SIGINT, SIGTERM, SIGHUP",
        "at random moments of `surefoot train`",
        "100 of 100 valid checkpoint and right exit code, within 5 s",
        lambda f: clean(f) and f["good"] == f["signals"] >= 100 and f["late"] == 0,
    ),
    "hangup": Goal(
        "SIGHUP, ignored signals",
        "a terminal that is closed; SIGINT and SIGHUP that the parent ignores",
        "saved with exit code 129; ignored ones stay ignored",
        lambda f: clean(f) and f["good"] == f["cases"] == 2,
    ),
    "lost_output": Goal(
        "standard output or error lost",
        "its reader gone, its disk full, closed: each with each",
        "9 of 9 train to the end, all saved, exit code 0",
        lambda f: clean(f) and f["good"] == f["cases"] == 9,
    ),
    "full_disk_while_logging": Goal(
        "full disk while logging",
        "RLIMIT_FSIZE at random bytes of the metrics, for a while or for good",
        "100 of 100 train to the end, told once, no line torn or missing once there is room",
        lambda f: clean(f) and f["good"] == f["cases"] >= 100,
    ),
    "two_at_once": Goal(
        "two processes, one run",
        "`train` and `resume` while another process trains; then that one is killed",
        "100 of 100 refused with its process id, and resumed after its death",
        lambda f: clean(f) and f["refused"] == f["attempts"] >= 100,
    ),
    "system_exit": Goal(
        "`sys.exit` in an env",
        "while it is made, in reset, step and mask, with and without workers",
        "24 of 24 named, or made anew in a worker; training is not ended",
        lambda f: clean(f) and f["named"] == f["cases"] == 24,
    ),
    "resume": Goal(
        "resume",
        "cut after every update",
        "≥ 12 configurations, parameters, optimizer and metrics equal by sha256",
        lambda f: clean(f) and f["configurations"] >= 12 and f["equal"] == f["cuts"],
    ),
    "soak": Goal(
        "soak",
        "training for a long time",
        "20 minutes, memory flat after warm-up, open files constant, saving ≤ 1 % of time",
        lambda f: (
            f["minutes"] >= 20
            and f["megabytes_at_end"] <= 1.02 * f["megabytes_after_warm_up"]
            and f["open_files_at_end"] == f["open_files_after_warm_up"]
            and f["saving_share"] <= 0.01
        ),
    ),
}


def page(figures: dict[str, Figures]) -> str:
    """The figures beside their goals."""
    lines = [
        "# Reliability",
        "",
        "Generated by `make faults`; do not edit. One suite alone: `cd tests && python -m faults.report --only NAME`;",
        "`--soak-minutes 120` soaks for two hours. `make test` runs a short version of each, or single tests of it.",
        "",
        f"Machine: {os.cpu_count()} cores, Python {platform.python_version()}.",
        "",
        "| failure | how tried | goal | measured | met | suite | seconds |",
        "|---|---|---|---|---|---|--:|",
    ]
    for name, goal in GOALS.items():
        row = f"| {goal.failure} | {goal.how} | {goal.words} "
        found = figures.get(name)
        if found is None:
            lines.append(f"{row}| not run yet | | `{name}` | |")
            continue
        shown = "; ".join(f"{key.replace('_', ' ')} {_show(x)}" for key, x in found.items() if key != "seconds")
        met = "yes" if goal.holds(found) else "**no**"
        lines.append(f"{row}| {shown} | {met} | `{name}` | {found['seconds']:.0f} |")
    return "\n".join(lines) + "\n"


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "none" if not value else f"{len(value)}: {', '.join(map(str, value[:3]))}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_show(x)}" for key, x in value.items())
    return str(value)


def main() -> None:
    """Run, keep, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions; the figures are not kept")
    parser.add_argument("--only", nargs="*", help="suites to run; the others keep their last figures")
    parser.add_argument("--soak-minutes", type=float, default=20.0)
    options = parser.parse_args()
    figures: dict[str, Figures] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for name, suite in suites(options.quick, options.soak_minutes).items():
        if options.only and name not in options.only:
            continue
        print(f"{name} …", flush=True)
        began = time.perf_counter()
        with Watchdog(SUITE_SECONDS + (60 * options.soak_minutes if name == "soak" else 0)):
            figures[name] = suite() | {"seconds": round(time.perf_counter() - began, 1)}
        print(json.dumps(figures[name]), flush=True)
        if not options.quick:
            DOCS.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps(figures, indent=1), encoding="utf-8")
            (DOCS / "reliability.md").write_text(page(figures), encoding="utf-8")
    print(page(figures))
    missed = [name for name in GOALS if name in figures and not GOALS[name].holds(figures[name])]
    if missed and not options.quick:
        raise SystemExit(f"goals missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
