"""File operations that survive a crash. Every change of the disk is one method of `Operations`.

Tests put others in the place of `SYSTEM` that fail or die at the n-th operation.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from surefoot.errors import StorageError

CHUNK_BYTES = 1 << 20
_HIDDEN = re.compile(r"\.(?P<name>.+)\.(?:writing|removing)-(?P<pid>[0-9]{1,10})-[0-9a-f]{8}", re.DOTALL)
# Hidden paths that this process is working on now; those of other processes are judged by their process id.
_in_flight: set[Path] = set()


class Operations:
    """The system calls that change the disk. Each raises OSError when it fails."""

    def make_directory(self, path: Path) -> None:
        os.mkdir(path)

    def create_file(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def open_directory(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def remove_file(self, path: Path) -> None:
        os.unlink(path)

    def remove_directory(self, path: Path) -> None:
        os.rmdir(path)


SYSTEM = Operations()


@contextmanager
def naming(operation: str, path: Path) -> Iterator[None]:
    """Turn an OSError into a StorageError that says what was tried on which path."""
    try:
        yield
    except OSError as error:
        raise StorageError(operation, path, error) from error


def write_file(path: Path, data: bytes, operations: Operations) -> None:
    """Create `path` with `data` and force it to the disk. The directory entry is forced by its directory."""
    with naming("create", path):
        descriptor = operations.create_file(path)
    with _closing(descriptor, path, operations):
        with naming("write", path):
            rest = memoryview(data)
            while rest:
                rest = rest[operations.write(descriptor, rest[:CHUNK_BYTES]) :]
        with naming("sync", path):
            operations.sync(descriptor)


def sync_directory(path: Path, operations: Operations) -> None:
    """Force the entries of a directory to the disk."""
    with naming("open", path):
        descriptor = operations.open_directory(path)
    with _closing(descriptor, path, operations), naming("sync", path):
        try:
            operations.sync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some network file systems have no fsync of directories
                raise


def make_directories(path: Path, operations: Operations) -> None:
    """Create `path` and its missing parents, each durable in its own parent."""
    missing: list[Path] = []
    with naming("inspect", path):
        while not path.is_dir():
            missing.append(path)
            path = path.parent
    for directory in reversed(missing):
        with naming("create directory", directory):
            try:
                operations.make_directory(directory)
            except FileExistsError:
                if not directory.is_dir():
                    raise
        sync_directory(directory.parent, operations)


def hidden_sibling(target: Path, kind: str) -> Path:
    """A fresh hidden name for `target`, or for what a hidden one stands for; `kind` as in `_HIDDEN`."""
    hidden = _HIDDEN.fullmatch(target.name)
    name = hidden["name"] if hidden else target.name
    return target.with_name(f".{name}.{kind}-{os.getpid()}-{secrets.token_hex(4)}")


@contextmanager
def in_flight(path: Path) -> Iterator[Path]:
    """Protect a hidden path from being swept by this process while the block runs."""
    _in_flight.add(path)
    try:
        yield path
    finally:
        _in_flight.discard(path)


def leftovers(parent: Path, names: re.Pattern[str]) -> list[Path]:
    """Hidden paths in `parent` that dead writers left for targets whose name matches `names`."""
    found = []
    for entry in _list(parent):
        match = _HIDDEN.fullmatch(entry)
        if match and names.fullmatch(match["name"]) and not _is_live(parent / entry, int(match["pid"])):
            found.append(parent / entry)
    return sorted(found)


def remove_directory_of(directory: Path, names: Collection[str], operations: Operations) -> None:
    """Remove a directory that holds only files of these names. A failure is told after a second try."""
    with ExitStack() as stack:
        stack.callback(_quietly_remove, directory, names, operations)
        _remove(directory, names, operations)
        stack.pop_all()


def foreign_entries(directory: Path, names: Collection[str]) -> list[str]:
    """Entries of a directory that are not files (or links) of these names."""
    with naming("list", directory), os.scandir(directory) as entries:
        return sorted(e.name for e in entries if e.name not in names or e.is_dir(follow_symlinks=False))


def discard_directory(directory: Path, names: Collection[str], operations: Operations) -> None:
    """Take a directory out of sight in one step, then remove it: no reader sees it half removed."""
    with in_flight(hidden_sibling(directory, "removing")) as grave, ExitStack() as stack:
        stack.callback(_quietly_remove, grave, names, operations)
        with naming("remove", directory), suppress(FileNotFoundError):
            operations.rename(directory, grave)
        sync_directory(directory.parent, operations)  # else a power cut could undo the renaming alone
        stack.pop_all()
        remove_directory_of(grave, names, operations)


def is_real_directory(path: Path) -> bool:
    """Whether `path` is a directory and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _remove(directory: Path, names: Collection[str], operations: Operations) -> None:
    for name in names:
        with naming("remove", directory / name), suppress(FileNotFoundError):
            operations.remove_file(directory / name)
    with naming("remove directory", directory), suppress(FileNotFoundError):
        operations.remove_directory(directory)


def _quietly_remove(directory: Path, names: Collection[str], operations: Operations) -> None:
    with suppress(StorageError):
        _remove(directory, names, operations)


@contextmanager
def _closing(descriptor: int, path: Path, operations: Operations) -> Iterator[None]:
    """Close once at the end: with its error after success, without after a failure that is already told."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            operations.close(descriptor)
        raise
    with naming("close", path):
        operations.close(descriptor)


def _list(directory: Path) -> list[str]:
    with naming("list", directory):
        return os.listdir(directory)


def _is_live(path: Path, pid: int) -> bool:
    """Whether the writer of a hidden path is still at work."""
    if pid == os.getpid():
        return path in _in_flight
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
