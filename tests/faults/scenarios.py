"""Saves to interrupt: what is on the disk before, what is done, and which states are right afterwards."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faults.operations import InterceptedOperations, Log
from faults.samples import is_sample, save_sample, write_sample
from surefoot.store import CheckpointStore, read_checkpoint
from surefoot.store.files import SYSTEM, Operations
from surefoot.store.swap import put_file


@dataclass(frozen=True)
class Scenario:
    """`state_dict` names what a reader finds in a directory, or raises; right are `before` and `after`."""

    name: str
    prepare: Callable[[Path], object]
    act: Callable[[Path, Operations], object]
    state: Callable[[Path], str]
    before: str
    after: str


def newest(root: Path) -> str:
    """Steps and generations that can be read, checked byte for byte; anything unreadable is an error."""
    store = CheckpointStore(root / "checkpoints")
    parts = []
    for step in store.steps():
        snapshot, manifest = read_checkpoint(store.path_of(step))
        generation = snapshot.values["generation"]
        if not is_sample(snapshot, generation) or manifest.step != step:
            raise AssertionError(f"step {step} is not what was saved")
        parts.append(f"{step}:{generation}")
    if parts and store.latest().skipped:
        raise AssertionError("a checkpoint was skipped")
    return " ".join(parts)


def single(root: Path) -> str:
    """The generation of the single checkpoint `agent`."""
    snapshot, _ = read_checkpoint(root / "agent")
    generation = snapshot.values["generation"]
    if not is_sample(snapshot, generation):
        raise AssertionError("not what was saved")
    return str(generation)


def small_file(root: Path) -> str:
    """The content of the small file."""
    return (root / "config.toml").read_text()


def _nothing(root: Path) -> None:
    root.mkdir(exist_ok=True)


def _two_steps(root: Path) -> None:
    save_sample(root / "checkpoints", 1, 1)
    save_sample(root / "checkpoints", 2, 2)


def _four_steps(root: Path) -> None:
    for step in (1, 2, 3, 4):
        save_sample(root / "checkpoints", step, step, keep_last=9)


def _dead_pid() -> int:
    """The id of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait(timeout=30)
    return ended.pid


def _after_crashes(root: Path) -> None:
    """Step 2 was being replaced, step 3 written and step 0 removed when their processes died."""
    _two_steps(root)
    pid = _dead_pid()
    checkpoints = root / "checkpoints"
    (checkpoints / f"{2:012d}").rename(checkpoints / f".{2:012d}.previous")
    for step, kind in ((3, "writing"), (0, "removing")):
        half = checkpoints / f".{step:012d}.{kind}-{pid}-0123abcd"
        half.mkdir()
        (half / "tensors.safetensors").write_bytes(b"half")


def _steps(root: Path) -> Path:
    return root / "checkpoints"


SCENARIOS = [
    Scenario(
        "first save",
        _nothing,
        lambda root, operations: save_sample(_steps(root), 1, 1, operations=operations),
        newest,
        before="",
        after="1:1",
    ),
    Scenario(
        "next save",
        _two_steps,
        lambda root, operations: save_sample(_steps(root), 3, 3, operations=operations),
        newest,
        before="1:1 2:2",
        after="1:1 2:2 3:3",
    ),
    Scenario(
        "same step again",
        _two_steps,
        lambda root, operations: save_sample(_steps(root), 2, 7, operations=operations),
        newest,
        before="1:1 2:2",
        after="1:1 2:7",
    ),
    Scenario(
        "save after crashes",
        _after_crashes,
        lambda root, operations: save_sample(_steps(root), 3, 3, operations=operations),
        newest,
        before="1:1 2:2",
        after="1:1 2:2 3:3",
    ),
    Scenario(
        "agent.save to a new path",
        _nothing,
        lambda root, operations: write_sample(root / "models" / "agent", 1, operations=operations),
        lambda root: single(root / "models") if (root / "models" / "agent").exists() else "",
        before="",
        after="1",
    ),
    Scenario(
        "agent.save over an older one",
        lambda root: write_sample(root / "agent", 1),
        lambda root, operations: write_sample(root / "agent", 2, operations=operations),
        single,
        before="1",
        after="2",
    ),
    Scenario(
        "small file",
        lambda root: put_file(root / "config.toml", b"seed = 1", SYSTEM),
        lambda root, operations: put_file(root / "config.toml", b"seed = 2", operations),
        small_file,
        before="seed = 1",
        after="seed = 2",
    ),
]

# Removing three old checkpoints has states between "before" and "after"; these are right as well.
RETENTION = Scenario(
    "save with retention",
    _four_steps,
    lambda root, operations: save_sample(_steps(root), 5, 5, operations=operations, keep_last=2),
    newest,
    before="1:1 2:2 3:3 4:4",
    after="4:4 5:5",
)
BETWEEN = {
    RETENTION.name: {"1:1 2:2 3:3 4:4 5:5", "2:2 3:3 4:4 5:5", "3:3 4:4 5:5"},
}
ALL_SCENARIOS = [*SCENARIOS, RETENTION]


def right_states(scenario: Scenario) -> set[str]:
    """Every state that a reader may find after an interruption."""
    return {scenario.before, scenario.after} | BETWEEN.get(scenario.name, set())


class Bench:
    """Fresh copies of the prepared directory of a scenario."""

    def __init__(self, scenario: Scenario, workspace: Path) -> None:
        self._prepared = workspace / f"{scenario.name.replace(' ', '-')}.prepared"
        self._prepared.mkdir()
        scenario.prepare(self._prepared)
        self._workspace = workspace
        self.scenario = scenario

    def fresh(self) -> Path:
        """A copy of the prepared directory; the copy before is removed."""
        root = self._workspace / "trial"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self._prepared, root, symlinks=True)
        return root

    def log(self) -> Log:
        """The operations of an uninterrupted run."""
        log = Log()
        self.scenario.act(self.fresh(), InterceptedOperations(log))
        return log
