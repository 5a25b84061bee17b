"""The checkpoints of a run: `<root>/<step>/`, newest first, with retention."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
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
from surefoot.store.retention import best_first, kept_steps
from surefoot.store.swap import sweep_all

STEP_DIGITS = 12
_STEP = re.compile(r"[0-9]{1,18}")
_PREVIOUS = re.compile(r"\.([0-9]{1,18})\.previous")
_ATTEMPTS = 10
_Entries = list[tuple[int, Path]]
_Refused = list[tuple[Path, str]]


class Found(NamedTuple):
    """A checkpoint that was read, and those before it in the search that were refused, with the reason."""

    snapshot: Snapshot
    manifest: Manifest
    path: Path
    skipped: list[tuple[Path, str]]


class CheckpointStore:
    """The checkpoints of one run. One process saves, any may read; only saving and cleaning change the disk.

    The `keep_last` newest stay, the best by `metric` (`keep_best`), and the first of each `keep_every` steps.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        keep_last: int = 3,
        keep_every: int | None = None,
        keep_best: bool = True,
        operations: Operations = SYSTEM,
    ) -> None:
        if keep_last < 1 or (keep_every is not None and keep_every < 1):
            raise CheckpointError(f"keep_last={keep_last} and keep_every={keep_every} must be at least 1")
        self.root = Path(os.path.abspath(root))
        self.keep_last = keep_last
        self.keep_every = keep_every
        self.keep_best = keep_best
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
        metric: float | None = None,
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
            metric=metric,
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
        """The newest checkpoint that verifies. Raises NoCheckpointError if there is none."""
        return self._search(self._newest_first)

    def best(self) -> Found:
        """The one with the highest metric that verifies. Raises NoCheckpointError if none was step_metrics."""
        return self._search(self._best_first)

    def _newest_first(self) -> tuple[_Entries, _Refused]:
        return sorted(self._entries(), reverse=True), []

    def _best_first(self) -> tuple[_Entries, _Refused]:
        readable, refused = self._manifests()
        order = best_first({step: manifest.metric for step, (_, manifest) in readable.items()})
        return [(step, readable[step][0]) for step in order], refused

    def _search(self, candidates: Callable[[], tuple[_Entries, _Refused]]) -> Found:
        """The first candidate that verifies; anew if one was removed by its writer during the search."""
        for _ in range(_ATTEMPTS):
            entries, refused = candidates()
            found = _first_readable(entries, refused)
            if found is not None:
                return found
            if all(os.path.lexists(path) for _, path in entries):
                break
        raise NoCheckpointError(self.root, refused)

    def _retain(self, saved: int) -> None:
        """Remove what the rules do not keep. What does not verify is neither counted nor removed."""
        readable, _ = self._manifests()
        kept = kept_steps(
            {step: manifest.metric for step, (_, manifest) in readable.items()},
            keep_last=self.keep_last,
            keep_every=self.keep_every,
            keep_best=self.keep_best,
        )
        for step, (path, _) in sorted(readable.items()):
            if step not in kept and step != saved:
                discard_directory(path, FILE_NAMES, self._operations)

    def _manifests(self) -> tuple[dict[int, tuple[Path, Manifest]], _Refused]:
        """Manifests by step, and the directories that have none that verifies."""
        readable: dict[int, tuple[Path, Manifest]] = {}
        refused: _Refused = []
        for step, path in sorted(self._entries()):
            try:
                _refuse_link(path)
                manifest = read_manifest(path)
                _check_step(path, step, manifest)
            except NoCheckpointError:
                continue
            except CheckpointError as error:
                refused.append((path, str(error)))
            else:
                readable[step] = (path, manifest)
        return readable, refused

    def _entries(self) -> _Entries:
        """(step, path) of everything here that has the name of a checkpoint."""
        with naming("list", self.root):
            names = os.listdir(self.root) if self.root.exists() else []
        found = {name for name in names if _STEP.fullmatch(name)}
        found |= {
            match[1] for name in names if (match := _PREVIOUS.fullmatch(name)) and is_real_directory(self.root / name)
        }
        return [(int(name), self.root / name) for name in found]


def _first_readable(entries: _Entries, refused: _Refused) -> Found | None:
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


def _check_step(path: Path, step: int, manifest: Manifest) -> None:
    if manifest.step != step:
        raise CorruptCheckpointError(path, f"its manifest says step {manifest.step}")


def _refuse_link(path: Path) -> None:
    if os.path.islink(path):
        raise CorruptCheckpointError(path, "it is a symbolic link")
