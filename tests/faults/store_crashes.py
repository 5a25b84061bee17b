"""Kill -9 while saving: a crash at every file operation, a power cut at every one, and real SIGKILLs."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from faults.operations import Crash, CrashAt, InterceptedOperations
from faults.power import states_after_power_cut
from faults.samples import FIND_FAULTS, hidden_entries, is_sample, workspace
from faults.scenarios import ALL_SCENARIOS, Bench, right_states
from surefoot.errors import NoCheckpointError
from surefoot.store import CheckpointStore, read_checkpoint

KILLED_FLOATS = 200_000  # a file of 0.8 MB, so that a kill often falls into its writing


def crash_at_every_operation() -> dict[str, Any]:
    """Die at each operation of each scenario; then read, save again, and look for leftovers."""
    points = survived = 0
    failures: list[str] = []
    with workspace() as place:
        for scenario in ALL_SCENARIOS:
            bench = Bench(scenario, place)
            for index in range(len(bench.log().calls)):
                root = bench.fresh()
                points += 1
                try:
                    scenario.act(root, InterceptedOperations(CrashAt(index)))
                    failures.append(f"{scenario.name}, operation {index}: did not crash")
                    continue
                except Crash:
                    pass
                found = scenario.state(root)
                scenario.act(root, InterceptedOperations(NO_FAULT))
                healed = scenario.state(root)
                left = hidden_entries(root)
                if found in right_states(scenario) and healed == scenario.after and not left:
                    survived += 1
                else:
                    failures.append(f"{scenario.name}, operation {index}: {found!r}, {healed!r}, {left}")
    return {"scenarios": len(ALL_SCENARIOS), "points": points, "survived": survived, "failures": failures[:5]}


class _NoFault:
    def meet(self, call: object) -> None:
        """Let everything pass."""


NO_FAULT = _NoFault()


def power_cut_at_every_operation() -> dict[str, Any]:
    """Lose all that was not synced, at each operation, in every way the directories' journals allow."""
    states = survived = 0
    failures: list[str] = []
    with workspace() as place:
        for scenario in ALL_SCENARIOS:
            bench = Bench(scenario, place)
            log = bench.log().calls
            base = bench.fresh()
            for index, root in states_after_power_cut(log, base, place / "cut"):
                states += 1
                right = right_states(scenario)
                if index == len(log):
                    right -= {scenario.before}  # what was reported as saved is saved
                try:
                    found = scenario.state(root)
                except Exception as error:
                    failures.append(f"{scenario.name}, operation {index}: {error!r}")
                    continue
                if found in right:
                    survived += 1
                else:
                    failures.append(f"{scenario.name}, operation {index}: found {found!r}")
    return {"states": states, "survived": survived, "failures": failures[:5]}


def kill_while_saving(n: int = 200, seed: int = 0) -> dict[str, Any]:
    """SIGKILL a process that only saves, at random moments; each one goes on where the last fell."""
    chance = random.Random(seed)
    figures = {"kills": n, "mid_save": 0, "unreadable": 0, "lost": 0, "saves_acknowledged": 0, "leftovers": 0}
    with tempfile.TemporaryDirectory() as workspace:
        root = Path(workspace) / "checkpoints"
        promised = 0
        for _ in range(n):
            acknowledged = _run_and_kill(root, delay=chance.uniform(0.0, 0.15))
            figures["saves_acknowledged"] += len(acknowledged)
            promised = max([promised, *acknowledged])
            figures["mid_save"] += bool(hidden_entries(root))
            try:
                found = CheckpointStore(root).latest()
            except NoCheckpointError:
                figures["lost"] += promised > 0
                continue
            figures["unreadable"] += len(found.skipped)
            generation = found.snapshot.values["generation"]
            figures["unreadable"] += not is_sample(found.snapshot, generation, floats=KILLED_FLOATS)
            figures["unreadable"] += _unreadable(root)
            figures["lost"] += generation < promised
        CheckpointStore(root).clean()
        figures["leftovers"] = len(hidden_entries(root))
    return figures


def _run_and_kill(root: Path, delay: float) -> list[int]:
    """Generations that the saver reported as saved before it was killed, `delay` seconds after it began."""
    command = [sys.executable, "-c", FIND_FAULTS + SAVER, str(root), str(KILLED_FLOATS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as saver:
        assert saver.stdout is not None
        saver.stdout.readline()  # it begins
        time.sleep(delay)
        saver.send_signal(signal.SIGKILL)
        lines = saver.stdout.read().split()
        saver.wait(timeout=30)
    return [int(line) for line in lines]


def _unreadable(root: Path) -> int:
    """Visible checkpoints that cannot be read."""
    bad = 0
    for step in CheckpointStore(root).steps():
        try:
            read_checkpoint(CheckpointStore(root).path_of(step))
        except Exception:
            bad += 1
    return bad


# Every third save replaces the step before it.
SAVER = """
import sys
from pathlib import Path
from faults.samples import save_sample
from surefoot.errors import NoCheckpointError
from surefoot.store import CheckpointStore
root, floats = Path(sys.argv[1]), int(sys.argv[2])
try:
    found = CheckpointStore(root).latest()
    step, generation = found.manifest.step, found.snapshot.values["generation"]
except NoCheckpointError:
    step, generation = 0, 0
print("begin", flush=True)
while True:
    generation += 1
    step += generation % 3 != 0
    save_sample(root, step, generation, floats=floats, keep_last=2)
    print(generation, flush=True)
"""
