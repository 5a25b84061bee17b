"""Put a directory or a file in its place: at every moment the old or the new one can be read.

Replacing a directory takes two renames on a POSIX system: the old one becomes `.<name>.previous`, then the
new one takes its name. A reader that finds no `<name>` between the two reads the previous one (`locate`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from surefoot.errors import CheckpointError, StorageError
from surefoot.store.files import (
    Operations,
    discard_directory,
    foreign_entries,
    hidden_sibling,
    in_flight,
    is_real_directory,
    leftovers,
    make_directories,
    naming,
    remove_directory_of,
    sync_directory,
    write_file,
)


def previous_of(target: Path) -> Path:
    """Where the replaced directory waits while its replacement takes its name."""
    return target.with_name(f".{target.name}.previous")


def locate(target: Path) -> Path:
    """The directory that holds `target` now: itself, or the previous one in a replacement cut half-way."""
    previous = previous_of(target)
    return previous if not os.path.exists(target) and is_real_directory(previous) else target


def put_directory(
    target: Path, files: Mapping[str, bytes], check: Callable[[Path], object], operations: Operations
) -> None:
    """Write `files` to a hidden sibling, force them to the disk, `check` what can be read back, swap it in.

    If anything fails before the new entry is durable, everything is taken back and `target` is as it was.
    """
    _refuse_foreign(target, files)
    make_directories(target.parent, operations)
    sweep(target, files, operations)
    previous = previous_of(target)
    replaces = target.exists()
    with in_flight(hidden_sibling(target, "writing")) as fresh, ExitStack() as undo:
        undo.callback(_quietly, partial(remove_directory_of, fresh, files, operations))
        undo.callback(_quietly, partial(sync_directory, target.parent, operations))
        with naming("create directory", fresh):
            operations.make_directory(fresh)
        for name, data in files.items():
            write_file(fresh / name, data, operations)
        sync_directory(fresh, operations)
        check(fresh)
        if replaces:
            undo.callback(_quietly, partial(_rename, previous, target, operations))
            _rename(target, previous, operations)
            sync_directory(target.parent, operations)
        undo.callback(_quietly, partial(_rename, target, fresh, operations))
        _rename(fresh, target, operations)
        sync_directory(target.parent, operations)
        undo.pop_all()
    if replaces:
        remove_directory_of(previous, files, operations)


def put_file(target: Path, data: bytes, operations: Operations) -> None:
    """Write one file through a hidden sibling and a rename, all forced to the disk."""
    make_directories(target.parent, operations)
    for stale in leftovers(target.parent, re.compile(re.escape(target.name))):
        _remove_file(stale, operations)
    with in_flight(hidden_sibling(target, "writing")) as fresh, ExitStack() as undo:
        undo.callback(_quietly, partial(_remove_file, fresh, operations))
        write_file(fresh, data, operations)
        _rename(fresh, target, operations)
        undo.pop_all()
    sync_directory(target.parent, operations)


def sweep(target: Path, names: Collection[str], operations: Operations) -> None:
    """Finish what dead writers left of `target`: a replacement cut half-way, half-written siblings."""
    sweep_all(target.parent, re.compile(re.escape(target.name), re.DOTALL), names, operations)


def sweep_all(parent: Path, targets: re.Pattern[str], names: Collection[str], operations: Operations) -> None:
    """`sweep` for every target in `parent` whose name matches."""
    for previous in _replaced(parent, targets):
        target = parent / previous.name.removeprefix(".").removesuffix(".previous")
        if not target.exists():
            _rename(previous, target, operations)
            sync_directory(parent, operations)
        elif not foreign_entries(previous, names):
            sync_directory(parent, operations)  # the replacement must be durable before the old one goes
            remove_directory_of(previous, names, operations)
    for stale in leftovers(parent, targets):
        if is_real_directory(stale) and not foreign_entries(stale, names):
            discard_directory(stale, names, operations)


def _replaced(parent: Path, targets: re.Pattern[str]) -> list[Path]:
    """The directories in `parent` that were moved away for a replacement and are still there."""
    with naming("list", parent):
        candidates = sorted(path for path in parent.iterdir() if path.name.endswith(".previous"))
    return [
        path
        for path in candidates
        if path.name.startswith(".")
        and targets.fullmatch(path.name.removeprefix(".").removesuffix(".previous"))
        and is_real_directory(path)
    ]


def _refuse_foreign(target: Path, names: Collection[str]) -> None:
    """Only a directory with nothing but our own files may be replaced."""
    with naming("inspect", target):
        if target.is_symlink():
            raise CheckpointError(f"{target} is a symbolic link; give the path it points to")
        if target.exists() and not target.is_dir():
            raise CheckpointError(f"{target} is a file; a checkpoint is a directory: choose another name")
        foreign = foreign_entries(target, names) if target.exists() else []
    if foreign:
        raise CheckpointError(
            f"{target} holds files that are not part of a checkpoint ({', '.join(foreign[:3])}); "
            "choose another name or remove them"
        )


def _rename(source: Path, target: Path, operations: Operations) -> None:
    with naming(f"rename {source.name} to", target):
        operations.rename(source, target)


def _remove_file(path: Path, operations: Operations) -> None:
    with naming("remove", path), suppress(FileNotFoundError):
        operations.remove_file(path)


def _quietly(action: Callable[[], None]) -> None:
    with suppress(StorageError):
        action()
