"""Memory and factored actions: does a memory remember, and do heads learn faster than their product?

    python benchmarks/memory.py
    python benchmarks/memory.py --task "Recall, 50 distractors" --agent lstm --seeds 0
    python benchmarks/memory.py --report

One JSON per run is kept under `benchmarks/results/memory/`; a run that is there is not run again, so the program may be
stopped and started at will.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from learning import RESULTS, keep
from memory_tasks import TASKS, check_settings


@dataclass(frozen=True)
class Job:
    task: str
    agent: str
    seed: int

    def path(self) -> Path:
        folder = self.task.lower().replace(",", "").replace(" ", "-")
        return RESULTS / "memory" / folder / f"{self.agent}-seed{self.seed}.json"

    def __str__(self) -> str:
        return f"{self.task}: {self.agent} seed {self.seed}"


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    failed = 0
    if not options.report:
        jobs = select(options.task, options.agent, options.seeds)
        pending = [job for job in jobs if not finished(job)]
        print(f"{len(jobs)} runs, {len(jobs) - len(pending)} kept from before, {len(pending)} to do", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill is a Ctrl-C
        try:
            failed = sum(not succeeded(job) for job in pending)
        except KeyboardInterrupt:
            print("stopped; finished runs are kept, start again to go on", file=sys.stderr)
            return 130
    from memory_report import write_report

    print(f"wrote {write_report(RESULTS)}")
    return 1 if failed else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    agents = {agent.name for task in TASKS.values() for agent in task.agents}
    parser.add_argument("--task", default="all", choices=[*TASKS, "all"])
    parser.add_argument("--agent", default="all", choices=[*sorted(agents), "all"])
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 0 … n-1 with the task's own n")
    parser.add_argument("--report", action="store_true", help="run nothing, write memory.md from the kept runs")
    return parser.parse_args(arguments)


def select(task: str, agent: str, seeds: list[int] | None) -> list[Job]:
    """Task by task, so that a stopped benchmark leaves whole rows."""
    return [
        Job(name, each.name, seed)
        for name in (TASKS if task == "all" else [task])
        for each in TASKS[name].agents
        if agent in ("all", each.name)
        for seed in (range(TASKS[name].n_seeds) if seeds is None else seeds)
    ]


def finished(job: Job) -> bool:
    if not job.path().exists():
        return False
    check_settings(json.loads(job.path().read_text()), job.path())
    return True


def succeeded(job: Job) -> bool:
    """Run in a fresh process, so that none inherits anything; an interrupt ends it unsaved."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the child when it imports torch
    process = multiprocessing.get_context("spawn").Process(target=perform, args=(job,))
    process.start()
    try:
        process.join()
    finally:
        process.terminate()
        process.join()
    if process.exitcode:
        print(f"FAILED {job} (exit code {process.exitcode})", file=sys.stderr, flush=True)
    return process.exitcode == 0


def perform(job: Job) -> None:
    """In the child: run and keep. The terminal's Ctrl-C is the parent's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from memory_runners import run

    task = TASKS[job.task]
    (agent,) = (each for each in task.agents if each.name == job.agent)
    record = run(task, agent, job.seed)
    keep(record, job.path())
    print(f"{job}: mean return {record['mean']:.3f} after {record['env_steps']:,} steps", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
