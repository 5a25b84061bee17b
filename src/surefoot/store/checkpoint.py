"""One checkpoint: a directory of `tensors.safetensors`, `state.json` and `manifest.json`."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt

from surefoot.errors import (
    CheckpointError,
    CorruptCheckpointError,
    NewerFormatError,
    NoCheckpointError,
    StorageError,
)
from surefoot.store import jsontext, tensors
from surefoot.store.files import CHUNK_BYTES, SYSTEM, Operations
from surefoot.store.jsontext import JSON
from surefoot.store.manifest import (
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    Envelope,
    FileRecord,
    InvalidManifest,
    Manifest,
    manifest_of,
    seal,
    unseal,
)
from surefoot.store.migrations import FORMAT_VERSION, CannotMigrate, Contents, migrate
from surefoot.store.swap import locate, put_directory

TENSORS_FILE = "tensors.safetensors"
STATE_FILE = "state.json"
FILE_NAMES = (TENSORS_FILE, STATE_FILE, MANIFEST_FILE)
_CONTENT_FILES = {TENSORS_FILE, STATE_FILE}
# What damage or malice can make of a file. Others (no permission, no descriptors) are not the file's fault.
_DAMAGE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EIO, errno.EISDIR, errno.ENXIO, errno.EINVAL}
_ATTEMPTS = 5

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a checkpoint keeps: arrays by name (`policy/actor.0.weight`), and JSON values by key."""

    tensors: Mapping[str, npt.NDArray[Any]]
    values: Mapping[str, JSON]


class _Invalid(ValueError):
    """Why a directory is not a checkpoint."""


def write_checkpoint(
    directory: str | os.PathLike[str],
    snapshot: Snapshot,
    *,
    exact: bool,
    config_hash: str,
    versions: Mapping[str, str],
    step: int | None = None,
    operations: Operations = SYSTEM,
) -> Path:
    """Write one checkpoint, durable and read back before it takes its name; returns its path.

    An older checkpoint at `directory` stays readable until the new one is. Any failure leaves it as it was.
    """
    target = Path(os.path.abspath(directory))
    files = _encode(snapshot, exact, config_hash, versions, step)
    put_directory(target, files, _read_back, operations)
    return target


def read_checkpoint(directory: str | os.PathLike[str]) -> tuple[Snapshot, Manifest]:
    """Read a checkpoint; sizes are checked first, then digests, then structure."""
    return _steadily(Path(os.path.abspath(directory)), _read)


def read_manifest(directory: str | os.PathLike[str]) -> Manifest:
    """The manifest of a checkpoint whose files are there in the right sizes; digests are not computed."""
    return _steadily(Path(os.path.abspath(directory)), _read_manifest)


def _encode(
    snapshot: Snapshot, exact: bool, config_hash: str, versions: Mapping[str, str], step: int | None
) -> dict[str, bytes]:
    """The three files of a checkpoint. What would not come back equal is refused here."""
    try:
        contents = {
            TENSORS_FILE: tensors.encode(snapshot.tensors),
            STATE_FILE: jsontext.dumps(dict(snapshot.values), name="values"),
        }
        records = {name: FileRecord.of(data) for name, data in contents.items()}
        manifest = Manifest(FORMAT_VERSION, exact, config_hash, versions, records, step)
        return {**contents, MANIFEST_FILE: seal(manifest)}
    except (tensors.InvalidTensors, jsontext.InvalidJson, InvalidManifest) as error:
        raise CheckpointError(f"this state cannot be saved: {error}") from error


def _read_back(directory: Path) -> None:
    try:
        read_checkpoint(directory)
    except (CorruptCheckpointError, NoCheckpointError) as error:
        raise CheckpointError(f"what was written does not read back, the disk may be failing: {error}") from error


def _steadily(target: Path, read: Callable[[Path], T]) -> T:
    """Read `target` even while another process replaces it: a failure of what is gone does not count."""
    for _ in range(_ATTEMPTS - 1):
        place = locate(target)
        before = _identity(place)
        try:
            return _naming_faults(place, read)
        except (CorruptCheckpointError, NoCheckpointError):
            now = locate(target)
            if (now, _identity(now)) == (place, before):
                raise
    return _naming_faults(locate(target), read)


def _identity(directory: Path) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(directory)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _naming_faults(directory: Path, read: Callable[[Path], T]) -> T:
    """Turn what can be wrong with a directory into an error that names it."""
    try:
        return read(directory)
    except (_Invalid, tensors.InvalidTensors, jsontext.InvalidJson, InvalidManifest, CannotMigrate) as error:
        raise CorruptCheckpointError(directory, str(error)) from error
    except MemoryError as error:
        raise CorruptCheckpointError(directory, "it needs more memory than there is") from error
    except FileNotFoundError as error:
        raise NoCheckpointError(directory) from error
    except OSError as error:
        if error.errno not in _DAMAGE:
            raise StorageError("read", directory, error) from error
        raise CorruptCheckpointError(directory, f"it cannot be read: {error.strerror}") from error


def _read(directory: Path) -> tuple[Snapshot, Manifest]:
    with _opened(directory) as (envelope, files):
        for name, record in envelope.files.items():
            if _digest(files[name]) != record.sha256:
                raise _Invalid(f"{name} does not match its digest")
        entries = tensors.read_header(files[TENSORS_FILE], envelope.files[TENSORS_FILE].size)
        arrays = tensors.read_arrays(files[TENSORS_FILE], entries)
        values = jsontext.loads(files[STATE_FILE].read(min(envelope.files[STATE_FILE].size, jsontext.MAX_BYTES + 1)))
    if not isinstance(values, dict):
        raise _Invalid(f"{STATE_FILE} is not an object")
    contents = migrate(Contents(envelope.fields, arrays, values), envelope.format_version)
    manifest = manifest_of(Envelope(envelope.format_version, envelope.files, contents.fields))
    return Snapshot(contents.tensors, contents.values), manifest


def _read_manifest(directory: Path) -> Manifest:
    with _opened(directory) as (envelope, _):
        pass
    contents = migrate(Contents(envelope.fields, {}, {}), envelope.format_version)
    return manifest_of(Envelope(envelope.format_version, envelope.files, contents.fields))


@contextmanager
def _opened(directory: Path) -> Iterator[tuple[Envelope, dict[str, BufferedReader]]]:
    """The envelope of the manifest and the open files of a checkpoint, their sizes checked.

    The version comes first: a newer format may hold other files. Everything is opened before it is used, relative
    to one directory, so that what another process replaces meanwhile does not mix with it.
    """
    with ExitStack() as stack:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, folder)
        envelope = unseal(stack.enter_context(_open(MANIFEST_FILE, folder)).read(MAX_MANIFEST_BYTES + 1))
        if envelope.format_version > FORMAT_VERSION:
            raise NewerFormatError(directory, envelope.format_version, FORMAT_VERSION)
        if set(envelope.files) != _CONTENT_FILES:
            raise _Invalid(f"the manifest names other files than {' and '.join(sorted(_CONTENT_FILES))}")
        files = {name: stack.enter_context(_open(name, folder)) for name in sorted(_CONTENT_FILES)}
        with os.scandir(folder) as entries:
            extra = {entry.name for entry in islice(entries, len(FILE_NAMES) + 1)} - set(FILE_NAMES)
        if extra:
            raise _Invalid(f"{min(extra)!r} does not belong to a checkpoint")
        for name, record in envelope.files.items():
            size = os.fstat(files[name].fileno()).st_size
            if size != record.size:
                raise _Invalid(f"{name} has {size} bytes, the manifest says {record.size}")
        yield envelope, files


def _open(name: str, folder: int) -> BufferedReader:
    """Open a regular file of a directory: no link out of it, nothing that blocks."""
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise _Invalid(f"{name} is not a regular file")
        return os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb")
    except FileNotFoundError as error:
        raise _Invalid(f"{name} is missing") from error


def _digest(file: BufferedReader) -> str:
    """The sha256 of a file, which is left at its beginning."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()
