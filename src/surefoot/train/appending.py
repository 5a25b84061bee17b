"""Files that grow by whole records."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from surefoot.errors import RunError
from surefoot.store.files import naming

KEPT_BYTES = 1 << 18
"""Of records that could not be written, the newest so many bytes are kept to be tried again."""
MAX_LINE_BYTES = 1 << 20
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class AppendedFile:
    """A regular file that records are appended to, each whole or not at all.

    What the disk refuses is kept and comes before the next record; half of a record is cut off again.
    """

    def __init__(self, path: Path, new: bool = False) -> None:
        self._descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | (os.O_EXCL if new else 0))
        self._torn_at: int | None = None
        self._unwritten: deque[bytes] = deque()

    @property
    def unwritten(self) -> list[bytes]:
        """Records that wait for room on the disk."""
        return list(self._unwritten)

    def append(self, record: bytes) -> None:
        """Write the record and those that wait; raises OSError if the disk refuses."""
        self._unwritten.append(record)
        while sum(map(len, self._unwritten)) > KEPT_BYTES and len(self._unwritten) > 1:
            self._unwritten.popleft()
        self.retry()

    def retry(self) -> None:
        """Write the records that wait."""
        while self._unwritten:
            self._write(self._unwritten[0])
            self._unwritten.popleft()

    def sync(self) -> None:
        """Force all that was written to the disk, after what waits."""
        self.retry()
        os.fsync(self._descriptor)

    def close(self) -> None:
        """`sync` and release; a second call does nothing."""
        if self._descriptor >= 0:
            try:
                self.sync()
            finally:
                os.close(self._descriptor)
                self._descriptor = -1

    def _write(self, record: bytes) -> None:
        if self._torn_at is None:
            self._torn_at = os.fstat(self._descriptor).st_size
        else:
            os.ftruncate(self._descriptor, self._torn_at)
        try:
            rest = memoryview(record)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            with suppress(OSError):  # then it is cut before the next record
                os.ftruncate(self._descriptor, self._torn_at)
            raise
        self._torn_at = None


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file, without their ends; none if there is no file."""
    if not os.path.lexists(path):
        return
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file, naming("read", path):
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise RunError(f"{path} is damaged in line {number}: it is longer than {MAX_LINE_BYTES} bytes")
            yield line.rstrip(b"\r\n")


def open_regular(path: Path, flags: int) -> int:
    """A descriptor of a regular file; what is none, a link among it, is refused and never waited for."""
    if path.is_symlink():
        raise RunError(f"{path} is a symbolic link; a run holds none: put the file itself there")
    if os.path.lexists(path) and not path.is_file():
        raise RunError(f"{path} is not a regular file: remove it")
    with naming("open", path):
        descriptor = os.open(path, flags | _FLAGS, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it was put there just now
        os.close(descriptor)
        raise RunError(f"{path} is not a regular file: remove it")
    return descriptor
