"""`surefoot bench risk`: do risk-neutral and constrained agents find the policies that are known to be best?

One record per run is kept under ``risk/``; a run that is there is not run again, so the program may be stopped and
started at will.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from surefoot.bench.risk_cases import WORLDS
from surefoot.bench.risk_report import write_report
from surefoot.bench.risk_runs import Job, keep, kept, run
from surefoot.errors import ConfigError, RunError

Say = Callable[[str], None]


def bench_risk(
    results: Path, worlds: Sequence[str], seeds: Sequence[int], episodes: int, jobs: int, say: Say
) -> tuple[Path, bool]:
    """Run what is missing, write the report; its path, and whether everything holds."""
    unknown = [name for name in worlds if name not in WORLDS]
    if unknown:
        raise ConfigError(f"no world {unknown[0]!r}; there are {', '.join(WORLDS)}")
    wanted = [Job(name, limit, seed) for name in worlds for limit in (None, *WORLDS[name]().limits) for seed in seeds]
    missing = [job for job in wanted if kept(job, results) is None]
    say(f"{len(wanted)} runs, {len(wanted) - len(missing)} kept from before, {len(missing)} to do")
    execute(missing, results, episodes, jobs, say)
    return write_report(results, list(seeds))


def execute(missing: Sequence[Job], results: Path, episodes: int, jobs: int, say: Say) -> None:
    """One after the other in this process, or ``jobs`` at a time in others, one torch thread each."""
    if jobs == 1:
        for done, job in enumerate(missing, 1):
            say(f"{done}/{len(missing)} {perform(job, results, episodes)}")
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the children when they import torch
    try:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            running = [pool.submit(perform, job, results, episodes) for job in missing]
            for done, future in enumerate(as_completed(running), 1):
                say(f"{done}/{len(missing)} {future.result()}")
    except BrokenProcessPool:
        raise RunError("a run was ended from outside; finished runs are kept, start again to go on") from None


def perform(job: Job, results: Path, episodes: int) -> str:
    """Run, keep, and say so in a line."""
    record = run(job, episodes)
    keep(record, job.path(results))
    limit = "no limit" if job.limit is None else f"limit {job.limit:g}"
    return (
        f"{job.world}, {limit}, seed {job.seed}: mean {record['mean']:.3f}, limited {record['limited']:.3f}, "
        f"{record['seconds']:.0f} s"
    )
