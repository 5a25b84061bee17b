"""Files that survive crashes, and that can hold no code: checkpoints and small JSON files. Needs no torch."""

from surefoot.store.checkpoint import Snapshot, read_checkpoint, read_manifest, write_checkpoint
from surefoot.store.checkpoints import CheckpointStore, Found
from surefoot.store.jsontext import JSON
from surefoot.store.manifest import FileRecord, Manifest
from surefoot.store.migrations import FORMAT_VERSION
from surefoot.store.smallfiles import read_json_bounded, write_json_atomic

__all__ = [
    "FORMAT_VERSION",
    "JSON",
    "CheckpointStore",
    "FileRecord",
    "Found",
    "Manifest",
    "Snapshot",
    "read_checkpoint",
    "read_json_bounded",
    "read_manifest",
    "write_checkpoint",
    "write_json_atomic",
]
