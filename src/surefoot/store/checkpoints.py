"""The checkpoints of a run: `<root>/<step>/`, newest first, with retention."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from surefoot.errors import CheckpointError, CorruptCheckpointError, NoCheckpointError
from surefoot.store.checkpoint import (
    FILE_NAMES,
    Snapshot,
    read_checkpoint,
    read_manifest,
    write_checkpoint,
)
from surefoot.store.files import (
    SYSTEM,
    Operations,
    discard_directory,
    is_real_directory,
    make_directories,
    naming,
)
from surefoot.store.manifest import Manifest
from surefoot.store.swap import sweep_all

STEP_DIGITS = 12
_STEP = re.compile(r"[0-9]{1,18}")
_PREVIOUS = re.compile(r"\.([0-9]{1,18})\.previous")
_ATTEMPTS = 10
_Entries = list[tuple[int, Path]]


class Found(NamedTuple):
    """A checkpoint that was read, and those before it in the search that were refused, with the reason."""

    snapshot: Snapshot
    manifest: Manifest
    path: Path
    skipped: list[tuple[Path, str]]


class CheckpointStore:
    """The checkpoints of one run. One process saves, any may read; only saving and cleaning change the disk.

    The `keep_last` newest stay.
    """

    def __init__(self, root: str | os.PathLike[str], *, keep_last: int = 3, operations: Operations = SYSTEM) -> None:
        if keep_last < 1:
            raise CheckpointError(f"keep_last={keep_last} must be at least 1")
        self.root = Path(os.path.abspath(root))
        self.keep_last = keep_last
        self._operations = operations

    def path_of(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.root / f"{step:0{STEP_DIGITS}d}"

    def save(
        self,
        step: int,
        snapshot: Snapshot,
        *,
        exact: bool,
        config_hash: str,
        versions: Mapping[str, str],
    ) -> Path:
        """Write and read back the checkpoint of `step`, then remove those that need not stay.

        What earlier writers left half done when they died is cleaned first.
        """
        if not 0 <= step < 10**18:
            raise CheckpointError(f"step {step} is not a count of environment steps")
        make_directories(self.root, self._operations)
        self.clean()
        path = write_checkpoint(
            self.path_of(step),
            snapshot,
            exact=exact,
            config_hash=config_hash,
            versions=versions,
            step=step,
            operations=self._operations,
        )
        self._retain(step)
        return path

    def clean(self) -> None:
        """Finish interrupted replacements and remove the half-written leftovers of dead processes."""
        sweep_all(self.root, _STEP, FILE_NAMES, self._operations)

    def steps(self) -> list[int]:
        """Steps that have an entry here, readable or not, in ascending order."""
        return sorted({step for step, _ in self._entries()})

    def latest(self) -> Found:
        """The newest checkpoint that verifies; anew if one was removed by its writer during the search. Raises
        NoCheckpointError if there is none."""
        for _ in range(_ATTEMPTS):
            refused: list[tuple[Path, str]] = []
            entries = sorted(self._entries(), reverse=True)
            found = _first_readable(entries, refused)
            if found is not None:
                return found
            if all(os.path.lexists(path) for _, path in entries):
                break
        raise NoCheckpointError(self.root, refused)

    def _retain(self, saved: int) -> None:
        """Remove all but the newest. What does not verify is neither counted nor removed."""
        readable = [(step, path) for step, path in sorted(self._entries()) if _has_manifest(step, path)]
        for step, path in readable[: -self.keep_last]:
            if step != saved:
                discard_directory(path, FILE_NAMES, self._operations)

    def _entries(self) -> _Entries:
        """(step, path) of everything here that has the name of a checkpoint."""
        with naming("list", self.root):
            names = os.listdir(self.root) if self.root.exists() else []
        found = {name for name in names if _STEP.fullmatch(name)}
        found |= {
            match[1] for name in names if (match := _PREVIOUS.fullmatch(name)) and is_real_directory(self.root / name)
        }
        return [(int(name), self.root / name) for name in found]


def _first_readable(entries: _Entries, refused: list[tuple[Path, str]]) -> Found | None:
    """The first entry that verifies; what comes before it is added to `refused`."""
    for step, path in entries:
        try:
            _refuse_link(path)
            snapshot, manifest = read_checkpoint(path)
            _check_step(path, step, manifest)
        except NoCheckpointError:
            refused.append((path, "it went away while it was read"))
        except CorruptCheckpointError as error:
            refused.append((path, error.reason))
        else:
            return Found(snapshot, manifest, path, refused)
    return None


def _has_manifest(step: int, path: Path) -> bool:
    """Whether a directory has a manifest that verifies."""
    try:
        _refuse_link(path)
        _check_step(path, step, read_manifest(path))
    except CheckpointError:
        return False
    return True


def _check_step(path: Path, step: int, manifest: Manifest) -> None:
    if manifest.step != step:
        raise CorruptCheckpointError(path, f"its manifest says step {manifest.step}")


def _refuse_link(path: Path) -> None:
    if os.path.islink(path):
        raise CorruptCheckpointError(path, "it is a symbolic link")
