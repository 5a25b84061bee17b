"""Do distributional critics learn as well as the scalar one? The tasks of `learning.py` with each kind of critic.

    python benchmarks/learning_critics.py --jobs 1
    python benchmarks/learning_critics.py --report

One JSON per run is kept under `benchmarks/results/critics/`; a run that is there is not run again, so the program may
be stopped and started at will.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kept_runs import RESULTS, Record, bring_up_to_date, parser_of, read
from learning import LearningJob
from learning_report import settings, verdict
from learning_tasks import CRITICS, TASKS, wanted_settings
from tables import cost, number, result

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


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, "critics.md")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    options = parser.parse_args(arguments)
    jobs = [] if options.report else select(options.seeds)
    return bring_up_to_date(jobs, options.jobs, wanted_settings, partial(write_report, options.seeds))


def select(seeds: list[int]) -> list[LearningJob]:
    return [job(system, task, seed) for task in CHOSEN for seed in seeds for system in SYSTEMS]


def job(system: str, task: str, seed: int) -> LearningJob:
    """A run that is kept beside the learning benchmark's, not among them."""
    return LearningJob(system, task, seed, folder="critics")


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


def records(system: str, task: str, seeds: list[int]) -> list[Record]:
    """Kept runs in the order of seeds."""
    paths = [job(system, task, seed).path() for seed in seeds]
    return [read(path, wanted_settings) for path in paths if path.exists()]


def row(task: str, system: str, group: list[Record], scalar: list[Record], wanted: int) -> str:
    if not group:
        return f"| {task} | {SYSTEMS[system]} | not run yet | | |"
    compared = ""
    if system in CRITICS:
        complete = min(len(group), len(scalar)) >= wanted
        compared = verdict(group, scalar, "scalar") if complete else "once all seeds are in"
    return f"| {task} | {SYSTEMS[system]} | {result(group)} | {compared} | {cost(group)} |"


if __name__ == "__main__":
    raise SystemExit(main())
