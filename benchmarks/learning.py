"""Does it learn? Trains Surefoot and Stable-Baselines3 with the same settings and tabulates the evaluations.

    python benchmarks/learning.py --system all --task all --jobs 1
    python benchmarks/learning.py --report

One JSON per run is kept under `benchmarks/results/learning/`; a run that is there is not run again, so the
program may be stopped and started at will.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from kept_runs import RESULTS, Record, add_choices, bring_up_to_date, chosen, parser_of
from learning_report import write_report
from learning_tasks import TASKS, wanted_settings

SYSTEMS = ("sb3", "sb3-zoo", "surefoot")


@dataclass(frozen=True)
class LearningJob:
    system: str
    task: str
    seed: int
    folder: str = "learning"

    def path(self) -> Path:
        return RESULTS / self.folder / self.system / f"{self.task}-seed{self.seed}.json"

    def run(self) -> Record:
        from learning_runners import run

        return run(self.system, TASKS[self.task], self.seed)

    def __str__(self) -> str:
        return f"{self.system} {self.task} seed {self.seed}"


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    jobs = [] if options.report else select(options.system, options.task, options.seeds)
    return bring_up_to_date(jobs, options.jobs, wanted_settings, write_report)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__, "learning.md")
    add_choices(parser, system=SYSTEMS, task=TASKS)
    return parser.parse_args(arguments)


def select(system: str, task: str, seeds: list[int] | None) -> list[LearningJob]:
    """Task by task, so that a stopped benchmark leaves whole rows."""
    return [
        LearningJob(each_system, name, seed)
        for name in chosen(TASKS, task)
        for each_system in chosen(SYSTEMS, system)
        if each_system != "sb3-zoo" or TASKS[name].zoo
        for seed in (range(TASKS[name].n_seeds) if seeds is None else seeds)
    ]


if __name__ == "__main__":
    raise SystemExit(main())
