"""Full and read-only disks: an error at every file operation, and a real limit on the size of files."""

from __future__ import annotations

import errno
import itertools
import json
import subprocess
import sys
import tempfile
from typing import Any

from faults.operations import FailAt, InterceptedOperations, Log
from faults.samples import FIND_FAULTS, hidden_entries, workspace
from faults.scenarios import ALL_SCENARIOS, Bench, right_states
from surefoot.errors import StorageError

CODES = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO)
# A full disk still lets names change and go; a read-only one lets nothing change.
SPARED_BY_FULL = frozenset({"rename", "remove_file", "remove_directory", "open_directory", "close"})
SPARED_BY_READ_ONLY = frozenset({"open_directory", "close", "sync"})
STAYING = {errno.ENOSPC: SPARED_BY_FULL, errno.EROFS: SPARED_BY_READ_ONLY}
SIZE_LIMITS = (0, 1, 50, 150, 250, 400)


def fail_at_every_operation(faults_per_operation: int | None = None) -> dict[str, Any]:
    """Fail at each operation of each scenario, once or from then on; nothing old may be damaged.

    With `faults_per_operation` the kinds of errors take turns; without, each operation meets all of them.
    """
    figures = {"points": 0, "named_error": 0, "old_intact": 0, "no_temporary_left": 0, "next_save_good": 0}
    figures["left_until_writable"] = 0
    failures: list[str] = []
    faults = itertools.cycle([(code, False) for code in CODES] + [(code, True) for code in STAYING])
    repeats = faults_per_operation or len(CODES) + len(STAYING)
    with workspace() as place:
        for scenario in ALL_SCENARIOS:
            bench = Bench(scenario, place)
            count = len(bench.log().calls)
            for trial_number, (code, stays) in zip(range(count * repeats), faults, strict=False):
                index = trial_number // repeats
                fault = FailAt(index, code, stays, STAYING.get(code, frozenset()))
                trial, unremovable = _try(bench, fault)
                figures["points"] += 1
                figures["left_until_writable"] += unremovable
                for key, good in trial.items():
                    figures[key] += good
                if not all(trial.values()):
                    failures.append(f"{scenario.name}, operation {index}, {errno.errorcode[code]}: {trial}")
    return {**figures, "failures": failures[:5]}


def _try(bench: Bench, fault: FailAt) -> tuple[dict[str, bool], bool]:
    """What went right, and whether the disk turned read-only with a temporary on it."""
    scenario = bench.scenario
    root = bench.fresh()
    leftovers_before = set(hidden_entries(root))
    named = False
    try:
        scenario.act(root, InterceptedOperations(fault))
    except StorageError as error:
        named = error.errno == fault.code and str(error.path) in str(error) and bool(error.operation)
    found = scenario.state(root)
    fresh_leftovers = set(hidden_entries(root)) - leftovers_before
    # Nothing can be removed from a disk that turned read-only half-way; the next save removes it.
    removable = not (fault.stays and fault.code == errno.EROFS)
    scenario.act(root, InterceptedOperations(Log()))
    results = {
        "named_error": named,
        "old_intact": found in right_states(scenario),
        "no_temporary_left": not (fresh_leftovers and removable),
        "next_save_good": scenario.state(root) == scenario.after and not hidden_entries(root),
    }
    return results, bool(fresh_leftovers) and not removable


def limit_file_size() -> dict[str, Any]:
    """Save under RLIMIT_FSIZE in a process of its own: the kernel itself cuts the writes short."""
    with tempfile.TemporaryDirectory() as workspace:
        command = [sys.executable, "-c", FIND_FAULTS + LIMITED_SAVER, workspace, json.dumps(SIZE_LIMITS)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        return {"limits": len(SIZE_LIMITS), "named_error": 0, "failures": [done.stderr[-2000:]]}
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


LIMITED_SAVER = """
import json, resource, sys
from pathlib import Path
from faults.samples import hidden_entries, save_sample
from faults.scenarios import newest
from surefoot.errors import StorageError
root, limits = Path(sys.argv[1]), json.loads(sys.argv[2])
save_sample(root / "checkpoints", 1, 1)
figures = {"limits": len(limits), "named_error": 0, "old_intact": 0, "no_temporary_left": 0, "failures": []}
for limit in limits:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        save_sample(root / "checkpoints", 2, 2)
        figures["failures"].append(f"a limit of {limit} bytes did not fail")
    except StorageError as error:
        figures["named_error"] += "File too large" in str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    figures["old_intact"] += newest(root) == "1:1"
    figures["no_temporary_left"] += not hidden_entries(root)
save_sample(root / "checkpoints", 2, 2)
figures["next_save_good"] = int(newest(root) == "1:1 2:2")
print(json.dumps(figures))
"""
