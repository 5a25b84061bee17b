"""Malicious checkpoints: read them all in one fresh process; count executions, foreign errors, memory."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from faults.malice import Case, body_for, harmless_cases, one, put, refused_cases, safetensors, sealed
from faults.samples import FIND_FAULTS, is_sample, save_sample, workspace
from surefoot.errors import CheckpointError, NewerFormatError, SurefootError
from surefoot.store import CheckpointStore, read_checkpoint, read_manifest

ALLOWANCE_BYTES = 64 << 20
SECONDS_PER_CASE = 20


def read_malicious() -> dict[str, Any]:
    """Run all cases in a fresh process, so that memory is measured from a low start and a crash is seen."""
    command = [sys.executable, "-c", FIND_FAULTS + "import faults.store_malice as suite; suite.main()"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        return {"files": 0, "failures": [f"exit {done.returncode}: {done.stderr[-2000:]}"]}
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _run_all() -> dict[str, Any]:
    refused, harmless = refused_cases(), harmless_cases()
    figures: dict[str, Any] = {
        "files": len(refused) + len(harmless),
        "refused": 0,
        "executions": 0,
        "foreign_errors": 0,
        "previous_used": 0,
        "worst_memory_mb": 0.0,
        "over_memory": 0,
        "slowest_seconds": 0.0,
        "failures": [],
    }
    with workspace() as place:
        save_sample(place / "warm", 1, 1)
        # Fixed here, because memory that Python keeps after one case would hide what the next one takes.
        baseline = _reset_peak_memory()
        for number, (name, case) in enumerate({**refused, **harmless}.items()):
            case_place = place / str(number)
            _run_case(name, case, case_place, figures, baseline=baseline, must_refuse=name in refused)
    return figures


def _run_case(name: str, case: Case, place: Path, figures: dict[str, Any], *, baseline: int, must_refuse: bool) -> None:
    place.mkdir()
    root, canary = place / "checkpoints", place / "canary"
    save_sample(root, 1, 1)
    bad = CheckpointStore(root).path_of(2)
    case(bad, canary)
    size = sum(file.lstat().st_size for file in bad.glob("*")) if bad.is_dir() else 0
    signal.alarm(SECONDS_PER_CASE)  # a hang ends the process, and with it the suite
    began = time.perf_counter()
    _reset_peak_memory()
    outcome = _outcome(bad)
    memory = _peak_memory() - baseline
    used = _previous_used(root, bad) if must_refuse else True
    signal.alarm(0)
    figures["slowest_seconds"] = round(max(figures["slowest_seconds"], time.perf_counter() - began), 2)
    figures["worst_memory_mb"] = round(max(figures["worst_memory_mb"], (memory - 2 * size) / 2**20), 1)
    figures["refused"] += outcome == "refused"
    figures["executions"] += canary.exists()
    figures["foreign_errors"] += outcome not in ("refused", "read")
    figures["previous_used"] += used and must_refuse
    figures["over_memory"] += memory > 2 * size + ALLOWANCE_BYTES
    expected = ("refused",) if must_refuse else ("refused", "read")
    if outcome not in expected or not used or canary.exists() or memory > 2 * size + ALLOWANCE_BYTES:
        figures["failures"].append(f"{name}: {outcome}, previous used {used}, {memory >> 20} MB")


def _outcome(directory: Path) -> str:
    for read in (read_manifest, read_checkpoint):
        try:
            read(directory)
        except CheckpointError as error:
            outcome = "refused" if str(directory) in str(error) else f"unnamed: {error!r}"
        except SurefootError as error:
            outcome = f"other: {error!r}"
        except Exception as error:
            outcome = f"foreign: {error!r}"
        else:
            outcome = "read"
    return outcome


def _previous_used(root: Path, bad: Path) -> bool:
    """Whether the store passes over the bad one and names it. A newer format is refused, not passed over."""
    try:
        found = CheckpointStore(root).latest()
    except NewerFormatError as error:
        return "pip install -U surefoot" in str(error)
    return is_sample(found.snapshot, 1) and [path for path, _ in found.skipped] == [bad]


def _reset_peak_memory() -> int:
    """Set the peak of this process back to what it uses now, and return that (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak_memory()


def _peak_memory() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmHWM in /proc/self/status")


def fuzz_sealed(n: int = 20_000, seed: int = 0) -> dict[str, Any]:
    """Change good files at random and make every digest right again: only our errors may come of it."""
    chance = random.Random(seed)
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    with workspace() as place:
        for trial in range(n):
            directory = place / "fuzzed"
            shutil.rmtree(directory, ignore_errors=True)
            _put_fuzzed(directory, chance)
            outcome = _outcome(directory)
            outcomes[outcome if outcome in ("refused", "read") else "foreign"] += 1
            if outcome not in ("refused", "read"):
                failures.append(f"trial {trial}: {outcome}")
    return {"files": n, "foreign_errors": outcomes["foreign"], **outcomes, "failures": failures[:5]}


def _put_fuzzed(directory: Path, chance: random.Random) -> None:
    header, state = json.dumps(one(name="policy/w")).encode(), b'{"a":[1,-2.5,{"$float":"nan"}],"b":{"c":null}}'
    tensors = safetensors(header, bytes(8))
    part = chance.choice(("header", "tensors", "state", "manifest"))
    if part == "header":
        tensors = safetensors(_fuzzed(header, chance), bytes(8))
    elif part == "tensors":
        tensors = _fuzzed(tensors, chance)
    elif part == "state":
        state = _fuzzed(state, chance)
    put(directory, tensors, state)
    if part == "manifest":
        body = json.dumps(body_for(tensors, state), indent=2).encode()
        (directory / "manifest.json").write_bytes(sealed(_fuzzed(body, chance)))


def _fuzzed(data: bytes, chance: random.Random) -> bytes:
    """Some bytes replaced, doubled, removed, or by a piece that a parser may stumble over."""
    pieces = (
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b":",
        b"-",
        b"1e9",
        b"null",
        b"true",
        b"NaN",
        b"\\u0000",
        b"\xff",
        b"0",
    )
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        start = chance.randrange(len(changed) + 1)
        stop = min(len(changed), start + chance.randrange(0, 6))
        kind = chance.randrange(3)
        new = b"" if kind == 0 else chance.choice(pieces) if kind == 1 else bytes(changed[start:stop]) * 2
        changed[start:stop] = new
    return bytes(changed)


def main() -> None:
    """Print the figures of all cases, for `read_malicious`."""
    json.dump(_run_all(), sys.stdout)
