"""The manifest: what a checkpoint holds, and the digests that prove it.

Its own digest is the last field and covers every byte before it, so that no damaged byte goes unseen. This
envelope (`format_version`, `files`, digest at the end) is the same in all formats; the other fields belong to
the version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from surefoot.store import jsontext
from surefoot.store.jsontext import JSON

MANIFEST_FILE = "manifest.json"
MAX_MANIFEST_BYTES = 256 << 10
MAX_FILE_BYTES = 1 << 62
_SEAL = re.compile(rb',\n  "manifest_sha256": "([0-9a-f]{64})"\n}\n\Z')
_SEAL_BYTES = len(b',\n  "manifest_sha256": "') + 64 + len(b'"\n}\n')
_DIGEST = re.compile(r"[0-9a-f]{64}")


class InvalidManifest(ValueError):
    """A manifest that no writer of Surefoot left."""


@dataclass(frozen=True)
class FileRecord:
    """Size and digest of one file of a checkpoint."""

    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> FileRecord:
        return cls(len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True)
class Manifest:
    """What a reader may know about a checkpoint without its contents."""

    format_version: int
    """The format the files are in; contents are migrated to the current one when read."""
    exact: bool
    """Whether going on from here equals never having stopped, bit for bit."""
    config_hash: str
    versions: Mapping[str, str]
    """Package -> version that wrote it."""
    files: Mapping[str, FileRecord]
    step: int | None = None
    """Environment steps, for the checkpoints of a run."""


@dataclass(frozen=True)
class Envelope:
    """The part of a manifest that all formats share, and the fields of its version, not yet judged."""

    format_version: int
    files: Mapping[str, FileRecord]
    fields: dict[str, JSON]


def seal(manifest: Manifest) -> bytes:
    """The text of a manifest, with its digest as the last field."""
    body = {
        "format_version": manifest.format_version,
        "exact": manifest.exact,
        "config_hash": manifest.config_hash,
        "step": manifest.step,
        "metric": None,  # format 2 has room for one, and nothing reads it
        "versions": dict(manifest.versions),
        "files": {name: {"size": record.size, "sha256": record.sha256} for name, record in manifest.files.items()},
    }
    manifest_of(Envelope(manifest.format_version, manifest.files, _own_fields(body)))  # refuse what would not read
    return seal_fields(body)


def seal_fields(body: dict[str, JSON]) -> bytes:
    """Close the text of any manifest body with its digest."""
    text = jsontext.dumps(body, name="manifest", indent=2).removesuffix(b"\n}")
    data = text + b',\n  "manifest_sha256": "' + hashlib.sha256(text).hexdigest().encode() + b'"\n}\n'
    if len(data) > MAX_MANIFEST_BYTES:
        raise InvalidManifest(f"{len(data)} bytes of manifest, at most {MAX_MANIFEST_BYTES} are allowed")
    return data


def unseal(data: bytes) -> Envelope:
    """Check the digest of a manifest and read its envelope."""
    found = _SEAL.search(data, max(0, len(data) - _SEAL_BYTES))
    if found is None:
        raise InvalidManifest("the manifest does not end with its digest")
    if hashlib.sha256(data[: found.start()]).hexdigest().encode() != found[1]:
        raise InvalidManifest("the manifest does not match its own digest")
    try:
        body = jsontext.loads(data)
    except jsontext.InvalidJson as error:
        raise InvalidManifest(f"the manifest is {error}") from error
    if not isinstance(body, dict):
        raise InvalidManifest("the manifest is not an object")
    version = body.get("format_version")
    if type(version) is not int or version < 0:
        raise InvalidManifest("the manifest has no format_version")
    return Envelope(version, _files(body.get("files")), _own_fields(body))


def manifest_of(envelope: Envelope) -> Manifest:
    """The manifest of an envelope whose fields are of the current format."""
    fields = envelope.fields
    if set(fields) != {"exact", "config_hash", "step", "metric", "versions"}:
        raise InvalidManifest(f"the manifest has the fields {sorted(fields)}")
    exact, config_hash, step, metric = (fields[key] for key in ("exact", "config_hash", "step", "metric"))
    versions = fields["versions"]
    if type(exact) is not bool:
        raise InvalidManifest("exact is not true or false")
    if not isinstance(config_hash, str):
        raise InvalidManifest("config_hash is not a string")
    if step is not None and (type(step) is not int or step < 0):
        raise InvalidManifest("step is not a count")
    if metric is not None and type(metric) is not float:
        raise InvalidManifest("metric is not a float")
    if not isinstance(versions, dict) or not all(isinstance(value, str) for value in versions.values()):
        raise InvalidManifest("versions is not a table of strings")
    return Manifest(envelope.format_version, exact, config_hash, versions, envelope.files, step)


def _own_fields(body: dict[str, JSON]) -> dict[str, JSON]:
    shared = ("format_version", "files", "manifest_sha256")
    return {key: value for key, value in body.items() if key not in shared}


def _files(table: JSON) -> dict[str, FileRecord]:
    if not isinstance(table, dict):
        raise InvalidManifest("files is not a table")
    records: dict[str, FileRecord] = {}
    for name, record in table.items():
        if not isinstance(record, dict) or set(record) != {"size", "sha256"}:
            raise InvalidManifest(f"the file {name[:80]!r} is not described by size and sha256")
        size, digest = record["size"], record["sha256"]
        if type(size) is not int or not 0 <= size < MAX_FILE_BYTES:
            raise InvalidManifest(f"the size of {name[:80]!r} is not a number of bytes")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise InvalidManifest(f"the digest of {name[:80]!r} is not a sha256")
        records[name] = FileRecord(size, digest)
    return records
