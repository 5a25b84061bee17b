"""Files that survive crashes, and that can hold no code. Needs no torch."""

from surefoot.store.checkpoint import Snapshot, read_checkpoint, read_manifest, write_checkpoint
from surefoot.store.checkpoints import CheckpointStore, Found
from surefoot.store.jsontext import JSON
from surefoot.store.manifest import FileRecord, Manifest
from surefoot.store.migrations import FORMAT_VERSION

__all__ = [
    "FORMAT_VERSION",
    "JSON",
    "CheckpointStore",
    "FileRecord",
    "Found",
    "Manifest",
    "Snapshot",
    "read_checkpoint",
    "read_manifest",
    "write_checkpoint",
]
