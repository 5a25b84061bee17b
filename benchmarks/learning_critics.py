"""Do distributional critics learn as well as the scalar one? The tasks of `learning.py` with each kind of critic.

    python benchmarks/learning_critics.py --jobs 1
    python benchmarks/learning_critics.py --report

One JSON per run is kept under `benchmarks/results/critics/`; a run that is there is not run again, so the program may
be stopped and started at will.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learning import RESULTS, Job, execute, finished
from learning_report import cost, estimate, interquartile_mean, mean, number, scores, settings, spread, verdict
from learning_tasks import CRITICS, TASKS, check_settings

CHOSEN = ("CartPole-v1", "Pendulum-v1")
SYSTEMS = {
    "surefoot": "scalar",
    "surefoot-quantile": "quantile, 32",
    "surefoot-categorical": "categorical, 51",
    "surefoot-quantile-twin": "quantile, 32, twin heads",
}

INTRODUCTION = """# Distributional critics on classic control

Made by `make bench-critics`, that is `python benchmarks/learning_critics.py`; with `--report` it only rewrites the page
from the kept runs. Settings, seeds, evaluation and intervals are those of the [learning benchmark](learning.md); only
the section `critic` differs. A critic is *below scalar* only if the whole 95 % interval of the difference of means is
below zero. Seconds are CPU time of training per run, wall time in parentheses; other programs shared the cores.
"""


@dataclass(frozen=True)
class CriticJob(Job):
    """A run that is kept beside the learning benchmark's, not among them."""

    def path(self) -> Path:
        return RESULTS / "critics" / self.system / f"{self.task}-seed{self.seed}.json"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one torch thread each (default 1)")
    parser.add_argument("--report", action="store_true", help="run nothing, write critics.md from the kept runs")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    failed = 0
    if not options.report:
        jobs = [CriticJob(system, task, seed) for task in CHOSEN for seed in options.seeds for system in SYSTEMS]
        pending = [job for job in jobs if not finished(job)]
        print(f"{len(jobs)} runs, {len(jobs) - len(pending)} kept from before, {len(pending)} to do", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill is a Ctrl-C
        try:
            failed = execute(pending, options.jobs)
        except KeyboardInterrupt:
            print("stopped; finished runs are kept, start again to go on", file=sys.stderr)
            return 130
    print(f"wrote {write_report(options.seeds)}")
    return 1 if failed else 0


def write_report(seeds: list[int]) -> Path:
    path = RESULTS / "critics.md"
    lines = [INTRODUCTION, "| task | critic | return | critic − scalar | seconds |", "|---|---|---|---|--:|"]
    details = ["", "## Settings and every seed", ""]
    for task in CHOSEN:
        kept = {system: records(system, task, seeds) for system in SYSTEMS}
        details += [f"**{task}.** {settings(TASKS[task])} {TASKS[task].note}".rstrip(), ""]
        for system, group in kept.items():
            lines.append(row(task, system, group, kept["surefoot"], len(seeds)))
            details.append(f"- {SYSTEMS[system]}: {', '.join(number(each['mean']) for each in group)}")
        details.append("")
    path.write_text("\n".join([*lines, *details[:-1]]) + "\n")
    return path


def records(system: str, task: str, seeds: list[int]) -> list[dict[str, Any]]:
    """Kept runs in the order of seeds."""
    found = []
    for path in (CriticJob(system, task, seed).path() for seed in seeds):
        if path.exists():
            found.append(json.loads(path.read_text()))
            check_settings(found[-1], path)
    return found


def row(task: str, system: str, group: list[dict[str, Any]], scalar: list[dict[str, Any]], wanted: int) -> str:
    if not group:
        return f"| {task} | {SYSTEMS[system]} | not run yet | | |"
    found = scores(group)
    middle = estimate(found, interquartile_mean)
    result = f"{spread(*estimate(found, mean))}<br>IQM {spread(*middle)}<br>{len(group)} seeds"
    compared = ""
    if system in CRITICS:
        complete = min(len(group), len(scalar)) >= wanted
        compared = verdict(found, scores(scalar), "scalar") if complete else "once all seeds are in"
    return f"| {task} | {SYSTEMS[system]} | {result} | {compared} | {cost(group)} |"


if __name__ == "__main__":
    raise SystemExit(main())
