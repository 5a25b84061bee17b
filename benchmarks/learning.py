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

from kept_runs import RESULTS, Record, add_jobs_option, bring_up_to_date
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", default="all", choices=[*SYSTEMS, "all"])
    parser.add_argument("--task", default="all", choices=[*TASKS, "all"])
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 0 … n-1 with the task's own n")
    add_jobs_option(parser)
    parser.add_argument("--report", action="store_true", help="run nothing, write learning.md from the kept runs")
    return parser.parse_args(arguments)


def select(system: str, task: str, seeds: list[int] | None) -> list[LearningJob]:
    """Task by task, so that a stopped benchmark leaves whole rows."""
    return [
        LearningJob(each_system, name, seed)
        for name in (TASKS if task == "all" else [task])
        for each_system in (SYSTEMS if system == "all" else [system])
        if each_system != "sb3-zoo" or TASKS[name].zoo
        for seed in (range(TASKS[name].n_seeds) if seeds is None else seeds)
    ]


if __name__ == "__main__":
    raise SystemExit(main())
