"""One process writes a run: a lock that ends with the process, whatever ends it."""

from __future__ import annotations

import errno
import fcntl
import os
import warnings
from contextlib import suppress
from pathlib import Path

from surefoot.errors import RunError, StorageError, SurefootWarning
from surefoot.train.appending import open_regular

LOCK_FILE = "run.lock"
_UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_held: set[int] = set()


class RunLock:
    """Holds ``run.lock`` in a run directory from its making to `release`; the file names the process.

    The file of a process that is gone is free: the kernel holds the lock, not the file.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_FILE
        self._descriptor: int | None = None
        while self._descriptor is None:
            descriptor = open_regular(self._path, os.O_RDWR | os.O_CREAT)
            try:
                _take(descriptor, self._path)
                if _is_at(descriptor, self._path):  # else its last holder removed it before we had it
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                    self._descriptor = descriptor
                    _held.add(descriptor)
            except OSError as error:
                raise StorageError("write", self._path, error) from error
            finally:
                if self._descriptor is None:
                    os.close(descriptor)

    def release(self) -> None:
        """Let others in; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None and descriptor in _held:
            _held.discard(descriptor)
            with suppress(OSError):
                self._path.unlink()  # before the lock goes: whoever waits for it sees that the file is gone
            os.close(descriptor)


def require_unlocked(directory: Path) -> None:
    """Raise if a process writes the run."""
    path = directory / LOCK_FILE
    if path.is_file():
        descriptor = open_regular(path, os.O_RDONLY)
        try:
            _take(descriptor, path)
        finally:
            os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        holder = f"process {pid}" if pid.isdigit() else "another process"
        raise RunError(f"{holder} is writing the run {path.parent}: wait for it to end, or stop it first") from None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        warnings.warn(
            f"{path.parent} is on a file system without locks: see to it that no other process writes this run",
            SurefootWarning,
            stacklevel=2,
        )


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _leave_to_the_parent() -> None:
    """A forked process must not keep the lock of a parent that died."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_the_parent)
