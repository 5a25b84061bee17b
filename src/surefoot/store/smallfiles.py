"""Small JSON files of a run, replaced in one step and read within limits."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from surefoot.errors import CorruptFileError, StorageError
from surefoot.store import jsontext
from surefoot.store.files import SYSTEM, Operations
from surefoot.store.jsontext import JSON
from surefoot.store.swap import put_file


def write_json_atomic(path: str | os.PathLike[str], value: JSON, *, operations: Operations = SYSTEM) -> None:
    """Replace a small JSON file: a crash at any moment leaves the old or the new one, whole."""
    target = Path(os.path.abspath(path))
    put_file(target, jsontext.dumps(value, name=target.name, indent=1) + b"\n", operations)


def read_json_bounded(path: str | os.PathLike[str], *, max_bytes: int = jsontext.MAX_BYTES) -> JSON:
    """Read a small JSON file. Raises FileNotFoundError, CorruptFileError or StorageError."""
    target = Path(os.path.abspath(path))
    try:
        with os.fdopen(os.open(target, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CorruptFileError(target, "it is not a regular file")
            data = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError("read", target, error) from error
    if len(data) > max_bytes:
        raise CorruptFileError(target, f"it is longer than {max_bytes} bytes")
    try:
        return jsontext.loads(data)
    except jsontext.InvalidJson as error:
        raise CorruptFileError(target, str(error)) from error
