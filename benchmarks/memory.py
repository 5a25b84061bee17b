"""Memory and factored actions: does a memory remember, and do heads learn faster than their product?

    python benchmarks/memory.py
    python benchmarks/memory.py --task "Recall, 50 distractors" --agent lstm --seeds 0
    python benchmarks/memory.py --report

One JSON per run is kept under `benchmarks/results/memory/`; a run that is there is not run again, so the program may be
stopped and started at will.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from kept_runs import RESULTS, Record, add_choices, bring_up_to_date, chosen, parser_of
from memory_report import write_report
from memory_tasks import TASKS, wanted_settings


@dataclass(frozen=True)
class MemoryJob:
    task: str
    agent: str
    seed: int

    def path(self) -> Path:
        folder = self.task.lower().replace(",", "").replace(" ", "-")
        return RESULTS / "memory" / folder / f"{self.agent}-seed{self.seed}.json"

    def run(self) -> Record:
        from memory_runners import run

        task = TASKS[self.task]
        return run(task, task.agent(self.agent), self.seed)

    def __str__(self) -> str:
        return f"{self.task}: {self.agent} seed {self.seed}"


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    jobs = [] if options.report else select(options.task, options.agent, options.seeds)
    return bring_up_to_date(jobs, options.jobs, wanted_settings, write_report)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__, "memory.md")
    agents = {agent.name for task in TASKS.values() for agent in task.agents}
    add_choices(parser, task=TASKS, agent=sorted(agents))
    return parser.parse_args(arguments)


def select(task: str, agent: str, seeds: list[int] | None) -> list[MemoryJob]:
    """Task by task, so that a stopped benchmark leaves whole rows."""
    return [
        MemoryJob(name, each, seed)
        for name in chosen(TASKS, task)
        for each in chosen((known.name for known in TASKS[name].agents), agent)
        for seed in (range(TASKS[name].n_seeds) if seeds is None else seeds)
    ]


if __name__ == "__main__":
    raise SystemExit(main())
