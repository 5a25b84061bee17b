"""Runs that are kept: one JSON each, made once in a process of its own, whole or not at all.

A program has a list of jobs; what is there already is not run again, so it may be stopped and started at will.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Protocol

RESULTS = Path(__file__).resolve().parent / "results"

Record = dict[str, Any]
Runs = dict[tuple[str, str], list[Record]]
"""Kept runs by (task, contender), sorted by seed."""
Wanted = Callable[[Record], Mapping[str, Any]]
"""The settings that a kept run's task has now."""


class Job(Protocol):
    """One run; it is sent to another process, and its name is printed."""

    def path(self) -> Path: ...

    def run(self) -> Record: ...


def parser_of(description: str | None, page: str) -> argparse.ArgumentParser:
    """The options that every program of kept runs has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--jobs", type=at_least_one, default=1, help="runs at a time, one torch thread each (default 1)"
    )
    parser.add_argument("--report", action="store_true", help=f"run nothing, write {page} from the kept runs")
    return parser


def add_choices(parser: argparse.ArgumentParser, **choices: Iterable[str]) -> None:
    """Options that choose one name or all of them, and the seeds."""
    for option, names in choices.items():
        parser.add_argument(f"--{option}", default="all", choices=[*names, "all"])
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 0 … n-1 with the task's own n")


def chosen(names: Iterable[str], choice: str) -> list[str]:
    """Those of the names that an option of `add_choices` means."""
    return [name for name in names if choice in ("all", name)]


def at_least_one(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return int(text)


def bring_up_to_date(jobs: Sequence[Job], at_a_time: int, wanted: Wanted, write_report: Callable[[], Path]) -> int:
    """Make the runs that are missing and write the page from all that are kept; returns the exit code."""
    failed = 0
    if jobs:
        pending = [job for job in jobs if not finished(job.path(), wanted)]
        print(f"{len(jobs)} runs, {len(jobs) - len(pending)} kept from before, {len(pending)} to do", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill is a Ctrl-C
        try:
            failed = execute(pending, at_a_time)
        except KeyboardInterrupt:
            print("stopped; finished runs are kept, start again to go on", file=sys.stderr)
            return 130
    print(f"wrote {write_report()}")
    return 1 if failed else 0


def finished(path: Path, wanted: Wanted) -> bool:
    if not path.exists():
        return False
    read(path, wanted)
    return True


def execute(pending: Sequence[Job], at_a_time: int) -> int:
    """Each run in a fresh process; returns how many failed. An interrupt ends the running ones unsaved."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the children when they import torch
    context = multiprocessing.get_context("spawn")
    queue, running, failed = list(pending), dict[SpawnProcess, Job](), 0
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
                print(f"{len(pending) - len(queue) - len(running)}/{len(pending)} done", flush=True)
    finally:
        for process in running:
            process.terminate()
            process.join()
    return failed


def perform(job: Job) -> None:
    """In the child: run and keep. The terminal's Ctrl-C is the parent's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that a scratch folder goes
    print(f"start {job}", flush=True)
    started = time.perf_counter()
    record = job.run()
    keep(record, job.path())
    seconds = f"training {record['wall_seconds']:.0f} s, all {time.perf_counter() - started:.0f} s"
    print(f"{job}: mean return {record['mean']:.3f} after {record['env_steps']:,} steps, {seconds}", flush=True)


def keep(record: Record, path: Path) -> None:
    """Whole or not at all: a hidden sibling, then a rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sibling = path.with_name(f".{path.name}.{os.getpid()}")
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    sibling.write_text(f"{{\n{lines}\n}}\n")
    os.replace(sibling, path)


def read(path: Path, wanted: Wanted) -> Record:
    """A kept run that was made with other settings is neither replaced nor reported silently."""
    record: Record = json.loads(path.read_text())
    kept, now = record["settings"], wanted(record)
    if different := {key for key in kept.keys() | now.keys() if kept.get(key) != now.get(key)}:
        raise SystemExit(
            f"{path} was made with other settings ({', '.join(sorted(different))}); delete it to run again"
        )
    return record


def read_runs(folder: Path, contender: str, wanted: Wanted) -> Runs:
    """Those in a folder of folders; ``contender`` is the field that says who ran."""
    runs: Runs = {}
    for path in sorted(folder.glob("*/*.json")):
        record = read(path, wanted)
        runs.setdefault((record["task"], record[contender]), []).append(record)
    return {key: sorted(group, key=lambda record: int(record["seed"])) for key, group in runs.items()}
