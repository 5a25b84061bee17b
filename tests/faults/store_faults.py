"""All fault suites of the store. `python tests/faults/store_faults.py` prints their figures as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# For the package `faults` itself when this file is run. At the end, so that nothing hides a module of Python.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from faults.store_corruption import corrupt_newest
from faults.store_crashes import crash_at_every_operation, kill_while_saving, power_cut_at_every_operation
from faults.store_disk import fail_at_every_operation, limit_file_size
from faults.store_malice import fuzz_sealed, read_malicious

__all__ = [
    "corrupt_newest",
    "crash_at_every_operation",
    "fail_at_every_operation",
    "fuzz_sealed",
    "kill_while_saving",
    "limit_file_size",
    "power_cut_at_every_operation",
    "read_malicious",
    "run_all",
]


def run_all(kills: int = 200, corruptions: int = 1000) -> dict[str, dict[str, Any]]:
    """Figures of every suite by name, each with the seconds it took."""
    suites: dict[str, Callable[[], dict[str, Any]]] = {
        "crash_at_every_operation": crash_at_every_operation,
        "power_cut_at_every_operation": power_cut_at_every_operation,
        "kill_while_saving": lambda: kill_while_saving(kills),
        "fail_at_every_operation": fail_at_every_operation,
        "limit_file_size": limit_file_size,
        "corrupt_newest": lambda: corrupt_newest(corruptions),
        "read_malicious": read_malicious,
        "fuzz_sealed": fuzz_sealed,
    }
    figures = {}
    for name, suite in suites.items():
        began = time.perf_counter()
        figures[name] = {**suite(), "seconds": round(time.perf_counter() - began, 1)}
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--corruptions", type=int, default=1000)
    options = parser.parse_args()
    print(json.dumps(run_all(options.kills, options.corruptions), indent=2))
