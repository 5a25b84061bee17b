"""Does it learn? Trains Surefoot and Stable-Baselines3 with the same settings and tabulates the evaluations.

    python benchmarks/learning.py --system all --task all --jobs 1
    python benchmarks/learning.py --report

One JSON per run is kept under `benchmarks/results/learning/`; a run that is there is not run again, so the
program may be stopped and started at will.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from learning_tasks import TASKS, check_settings

RESULTS = Path(__file__).resolve().parent / "results"
SYSTEMS = ("sb3", "sb3-zoo", "surefoot")


@dataclass(frozen=True)
class Job:
    system: str
    task: str
    seed: int

    def path(self) -> Path:
        return RESULTS / "learning" / self.system / f"{self.task}-seed{self.seed}.json"

    def __str__(self) -> str:
        return f"{self.system} {self.task} seed {self.seed}"


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    failed = 0
    if not options.report:
        jobs = select(options.system, options.task, options.seeds)
        pending = [job for job in jobs if not finished(job)]
        print(f"{len(jobs)} runs, {len(jobs) - len(pending)} kept from before, {len(pending)} to do", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill is a Ctrl-C
        try:
            failed = execute(pending, options.jobs)
        except KeyboardInterrupt:
            print("stopped; finished runs are kept, start again to go on", file=sys.stderr)
            return 130
    from learning_report import write_report

    print(f"wrote {write_report(RESULTS)}")
    return 1 if failed else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", default="all", choices=[*SYSTEMS, "all"])
    parser.add_argument("--task", default="all", choices=[*TASKS, "all"])
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 0 … n-1 with the task's own n")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one torch thread each (default 1)")
    parser.add_argument("--report", action="store_true", help="run nothing, write learning.md from the kept runs")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    return options


def select(system: str, task: str, seeds: list[int] | None) -> list[Job]:
    """Task by task, so that a stopped benchmark leaves whole rows."""
    return [
        Job(each_system, name, seed)
        for name in (TASKS if task == "all" else [task])
        for each_system in (SYSTEMS if system == "all" else [system])
        if each_system != "sb3-zoo" or TASKS[name].zoo
        for seed in (range(TASKS[name].n_seeds) if seeds is None else seeds)
    ]


def finished(job: Job) -> bool:
    if not job.path().exists():
        return False
    check_settings(json.loads(job.path().read_text()), job.path())
    return True


def execute(pending: Iterable[Job], at_a_time: int) -> int:
    """Each run in a fresh process; returns how many failed. An interrupt ends the running ones unsaved."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the children when they import torch
    context = multiprocessing.get_context("spawn")
    queue, running, failed = list(pending), dict[SpawnProcess, Job](), 0
    total = len(queue)
    try:
        while queue or running:
            while queue and len(running) < at_a_time:
                job = queue.pop(0)
                process = context.Process(target=perform, args=(job,))
                process.start()
                running[process] = job
            wait([process.sentinel for process in running])
            for process in [process for process in running if process.exitcode is not None]:
                job = running.pop(process)
                if process.exitcode:
                    failed += 1
                    print(f"FAILED {job} (exit code {process.exitcode})", file=sys.stderr, flush=True)
                print(f"{total - len(queue) - len(running)}/{total} done", flush=True)
    finally:
        for process in running:
            process.terminate()
            process.join()
    return failed


def perform(job: Job) -> None:
    """In the child: run and keep. The terminal's Ctrl-C is the parent's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that the scratch folder goes
    from learning_runners import run

    print(f"start {job}", flush=True)
    started = time.perf_counter()
    record = run(job.system, TASKS[job.task], job.seed)
    keep(record, job.path())
    seconds = f"training {record['wall_seconds']:.0f} s, all {time.perf_counter() - started:.0f} s"
    print(f"{job}: mean return {record['mean']:.1f}, {seconds}", flush=True)


def keep(record: dict[str, Any], path: Path) -> None:
    """Whole or not at all: a hidden sibling, then a rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sibling = path.with_name(f".{path.name}.{os.getpid()}")
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    sibling.write_text(f"{{\n{lines}\n}}\n")
    os.replace(sibling, path)


if __name__ == "__main__":
    raise SystemExit(main())
