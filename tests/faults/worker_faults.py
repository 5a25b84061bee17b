"""Faults of environments and worker processes. `cd tests && python -m faults.worker_faults` prints the figures."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from faults.worker_worlds import Do, Obedient, Unreliable
from surefoot.errors import EnvError
from surefoot.workers.envs import WorkerEnvs

SHARED_MEMORY = Path("/dev/shm")
ORPHAN_SECONDS = 2.0


def env_raises(p: float = 0.0005, steps: int = 200_000, workers: int = 4) -> dict[str, Any]:
    """Train on envs that raise by chance."""
    from surefoot import PPO

    with tempfile.TemporaryDirectory() as folder:
        raised_file = Path(folder, "raised_file")
        raised_file.touch()
        factory = partial(Unreliable, p, str(raised_file))
        agent = PPO(factory, n_envs=8, workers=workers, n_steps=256, n_epochs=1, seed=0)
        try:
            agent.learn(steps)
            envs = agent.envs
            assert isinstance(envs, WorkerEnvs)
            return {
                "env_steps": agent.num_timesteps,
                "completed": agent.num_timesteps >= steps,
                "raised": raised_file.stat().st_size,
                "counted": envs.n_restarts,
            }
        finally:
            agent.close()


def worker_faults(n: int = 100, timeout: float = 1.0, seed: int = 0) -> dict[str, Any]:
    """Kill, stop and hang workers, from outside at random moments and from within; how long each step took that met
    one. A step that takes ``timeout`` + 1 s or longer is late; one that never returns would be a deadlock."""
    rng = random.Random(seed)
    kinds = ("kill", "stop", "exit", "hang", "hang in C")
    slowest = dict.fromkeys(kinds, 0.0)
    figures = {"faults": n, "replaced": 0, "clean_errors": 0, "late": 0, "deadlocks": 0}
    envs = WorkerEnvs(Obedient, 6, 3, worker_timeout=timeout, max_restarts=10 * n)
    try:
        envs.reset(seed)
        for i in range(n):
            kind = kinds[i % len(kinds)]
            before = envs.n_restarts
            with Watchdog(60):
                try:
                    seconds = _meet(envs, kind, rng)
                except EnvError:
                    figures["clean_errors"] += 1
                    envs.reset(seed)
                    continue
            figures["replaced"] += envs.n_restarts > before
            figures["late"] += seconds > timeout + 1
            slowest[kind] = max(slowest[kind], seconds)
    finally:
        envs.close()
    return {**figures, "timeout_seconds": timeout, "slowest_seconds": {k: round(s, 2) for k, s in slowest.items()}}


def parent_killed(n: int = 100, seed: int = 0) -> dict[str, Any]:
    """Kill training processes at random moments, start-up included; look for what outlives them by two seconds."""
    rng = random.Random(seed)
    segments_before = segments()
    orphans, slowest, alive = 0, 0.0, 0
    for _ in range(n):
        mark = uuid.uuid4().hex
        parent = start_parent(mark)
        # Half of them while processes are being started, half while envs are stepped.
        if rng.random() < 0.5:
            time.sleep(rng.uniform(0.2, 1.0))
        else:
            assert parent.stdout is not None
            parent.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.1))
        alive += len(marked(mark)) > 1
        parent.kill()
        parent.communicate()
        seconds = until_gone(mark, ORPHAN_SECONDS)
        orphans += len(marked(mark))
        slowest = max(slowest, seconds)
    return {
        "kills": n,
        "kills_with_workers": alive,
        "orphans": orphans,
        "segments_left": len(segments() - segments_before),
        "slowest_seconds": round(slowest, 2),
    }


def start_parent(mark: str, code: str = "") -> subprocess.Popen[str]:
    """A training process with two workers, one of which will hang; all carry ``mark`` in their environment.

    Once it steps it prints `fork`. ``code`` runs first and may define `make` and `fork`.
    """
    program = f"""
import sys, threading
import numpy as np
from faults.worker_worlds import Do, Obedient
from surefoot.workers.envs import WorkerEnvs
def make():
    return WorkerEnvs(lambda: Obedient(grandchild=True), 4, 2)
fork = 0
{code}
envs = make()
envs.reset(0)
envs.step(np.zeros(4, np.int64))
print(fork, flush=True)
while True:
    envs.step(np.array([Do.WALK, Do.WALK, Do.HANG_IN_C, Do.WALK]))
"""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "SUREFOOT_TEST_MARK": mark},
    )


def marked(mark: str) -> list[int]:
    """Living processes with ``mark`` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and "\nState:\tZ" not in (
                folder / "status"
            ).read_text("utf-8"):
                found.append(int(folder.name))
        except OSError:
            continue  # gone meanwhile, or not ours
    return found


def until_gone(mark: str, limit: float) -> float:
    """Seconds until no process carries ``mark``, at most ``limit``."""
    began = time.monotonic()
    while marked(mark) and time.monotonic() - began < limit:
        time.sleep(0.02)
    return time.monotonic() - began


def _meet(envs: WorkerEnvs, kind: str, rng: random.Random) -> float:
    """Step until a fault of the given kind has been met; seconds of the longest step."""
    actions = np.full(envs.n_envs, Do.WALK, np.int64)
    victim = rng.randrange(3)
    if kind in ("kill", "stop"):
        pid = envs.pids[victim]
        assert pid is not None
        number = signal.SIGKILL if kind == "kill" else signal.SIGSTOP
        timer = threading.Timer(rng.uniform(0, 0.02), os.kill, (pid, number))
        timer.start()
    else:
        actions[2 * victim + rng.randrange(2)] = {"exit": Do.EXIT, "hang": Do.HANG, "hang in C": Do.HANG_IN_C}[kind]
    longest = 0.0
    while True:
        began = time.monotonic()
        step = envs.step(actions)
        longest = max(longest, time.monotonic() - began)
        if step.dropped.any():
            return longest


def segments() -> set[str]:
    """Named pieces of shared memory on this machine; but not the semaphores of `multiprocessing`, which Surefoot does
    not use and other programs make at any time."""
    found = {path.name for path in SHARED_MEMORY.iterdir() if path.is_file()} if SHARED_MEMORY.exists() else set()
    return {name for name in found if not name.startswith("sem.mp-")}


class Watchdog:
    """Ends the process, with a traceback, if its block takes too long: a deadlock must not look like patience."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        import faulthandler

        faulthandler.dump_traceback_later(self._seconds, exit=True)

    def __exit__(self, *error: object) -> None:
        import faulthandler

        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    for suite in (env_raises, worker_faults, parent_killed):
        began = time.perf_counter()
        figures = suite()
        print(json.dumps({suite.__name__: {**figures, "seconds": round(time.perf_counter() - began, 1)}}))
