"""A system at work in its own process, and which commit it is of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from throughput_systems import WORKLOADS

HERE = Path(__file__).parent
PAUSE = 0.1
"""Seconds between two systems: threads of the one before still wait for work for some ten milliseconds, in a loop."""
IN_ONE_THREAD = """
import dataclasses, sys
sys.path.insert(0, sys.argv.pop(1))
import throughput_systems as systems
systems.WORKLOADS = {name: dataclasses.replace(each, threads=1) for name, each in systems.WORKLOADS.items()}
systems.main()
"""
"""Serves a system of any commit, given the folder of its benchmarks, with one thread whatever the workload says."""


@dataclass
class Child:
    """A system at work in its own process."""

    system: str
    workload: str
    process: subprocess.Popen[str]
    warm_up: float = 0.0
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    last: dict[str, float] = field(default_factory=dict)

    @classmethod
    def start(cls, system: str, workload: str) -> Child:
        """Start it and wait until it is ready."""
        command = [str(HERE / "throughput_systems.py"), system, workload]
        return cls._start(system, workload, command, WORKLOADS[workload].threads, {})

    @classmethod
    def start_of(cls, tree: Path, system: str, workload: str) -> Child:
        """Start a system of the code in ``tree``, by that code's own benchmarks, in one thread."""
        command = ["-c", IN_ONE_THREAD, str(tree / "benchmarks"), system, workload]
        return cls._start(system, workload, command, 1, {"PYTHONPATH": str(tree / "src")})

    @classmethod
    def _start(cls, system: str, workload: str, command: list[str], n_threads: int, more: dict[str, str]) -> Child:
        threads = str(n_threads)
        limits = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        xla = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        environment = os.environ | limits | {"XLA_FLAGS": xla, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
        process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment | more,
        )
        child = cls(system, workload, process)
        child._answer()
        return child

    def run(self, iterations: int) -> dict[str, float]:
        """Let it work; what it says."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"run {iterations}\n")
        self.process.stdin.flush()
        self.last = self._answer()
        return self.last

    def time(self, iterations: int) -> None:
        """Let it work, and keep what that took."""
        answer = self.run(iterations)
        self.walls.append(answer["wall"])
        self.cpus.append(answer["cpu"])

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _answer(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.system} on {self.workload} died")
        found: dict[str, float] = json.loads(line)
        return found


def git(*arguments: str) -> str:
    """What git says of this repository."""
    return subprocess.run(
        ["git", *arguments], cwd=HERE.parent, check=True, capture_output=True, text=True
    ).stdout.strip()


def this_commit() -> str:
    """The commit that is checked out, and whether its code was changed."""
    changed = git("status", "--porcelain", "--", "src", "benchmarks/*.py")
    return git("rev-parse", "--short", "HEAD") + (" + uncommitted changes" if changed else "")
