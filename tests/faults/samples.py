"""Snapshots to save: generation `g` is always the same, and different from any other."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.store import CheckpointStore, Snapshot, write_checkpoint
from surefoot.store.files import SYSTEM, Operations

# How a fresh Python finds this package; at the end of the path, so that no folder of tests hides a module of Python.
FIND_FAULTS = f"import sys; sys.path.append({str(Path(__file__).resolve().parents[1])!r})\n"
VERSIONS = {"surefoot": "0.1.0", "numpy": np.__version__}


def sample(generation: int, *, floats: int = 24) -> Snapshot:
    """The snapshot of a generation."""
    rng = np.random.default_rng(generation)
    tensors: dict[str, npt.NDArray[Any]] = {
        "policy/actor.0.weight": rng.standard_normal((floats // 4, 4)).astype(np.float32),
        "optim/step": np.array(generation, dtype=np.int64),
        "rollout/mask": rng.random(5) < 0.5,
    }
    return Snapshot(tensors, {"generation": generation, "rng": rng.bit_generator.state, "best": -0.0})


def is_sample(snapshot: Snapshot, generation: int, *, floats: int = 24) -> bool:
    """Whether a snapshot is exactly that of a generation."""
    return same(snapshot, sample(generation, floats=floats))


def same(left: Snapshot, right: Snapshot) -> bool:
    """Equal names, dtypes, shapes, bytes and values."""
    return (
        set(left.tensors) == set(right.tensors)
        and all(_same_array(left.tensors[name], right.tensors[name]) for name in left.tensors)
        and repr(left.values) == repr(right.values)  # repr tells -0.0 from 0.0 and holds NaN equal to itself
    )


def save_sample(
    root: Path,
    step: int,
    generation: int,
    *,
    floats: int = 24,
    operations: Operations = SYSTEM,
    keep_last: int = 3,
) -> Path:
    """Save a generation as a step of the store at `root`."""
    store = CheckpointStore(root, keep_last=keep_last, operations=operations)
    snapshot = sample(generation, floats=floats)
    return store.save(step, snapshot, exact=True, config_hash="c0ffee", versions=VERSIONS)


def write_sample(directory: Path, generation: int, *, operations: Operations = SYSTEM) -> Path:
    """Write a generation as a single checkpoint, as `agent.save` does."""
    return write_checkpoint(
        directory,
        sample(generation),
        exact=False,
        config_hash="c0ffee",
        versions=VERSIONS,
        operations=operations,
    )


@contextmanager
def workspace() -> Iterator[Path]:
    """A directory in memory where there is one: for faults that are simulated, the disk only adds waiting."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


def hidden_entries(root: Path) -> list[str]:
    """Names of hidden files and directories below `root`: temporaries, if any."""
    return sorted(path.name for path in root.rglob(".*"))


def _same_array(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
