from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faults.malice import body_for, safetensors, sealed
from faults.samples import save_sample
from surefoot.errors import CorruptCheckpointError, NewerFormatError
from surefoot.store import FORMAT_VERSION, CheckpointStore, read_checkpoint, read_manifest
from surefoot.store.migrations import MIGRATIONS, Contents


def write_version_0(directory: Path) -> None:
    """A directory as an imagined format 0 left it: other names, and a manifest without `exact` and `metric`."""
    header = {"actor": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    tensors = safetensors(header, np.array([1.5, -2.0], "<f4").tobytes())
    state = json.dumps({"timesteps": 640}).encode()
    body: dict[str, Any] = body_for(tensors, state, format_version=0)
    fields = {key: body[key] for key in ("format_version", "config_hash", "versions", "files")}
    directory.mkdir(parents=True)
    (directory / "tensors.safetensors").write_bytes(tensors)
    (directory / "state.json").write_bytes(state)
    (directory / "manifest.json").write_bytes(sealed({**fields, "num_steps": 640}))


def from_0_to_1(old: Contents) -> Contents:
    fields = {**old.fields, "exact": False, "step": old.fields["num_steps"], "metric": None}
    del fields["num_steps"]
    tensors = {f"policy/{name}": array for name, array in old.tensors.items()}
    values = {"num_timesteps": old.values["timesteps"]} if old.values else {}
    return Contents(fields, tensors, values)


def test_an_old_format_is_brought_to_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MIGRATIONS, 0, from_0_to_1)
    store = CheckpointStore(tmp_path)
    write_version_0(store.path_of(640))
    snapshot, manifest = read_checkpoint(store.path_of(640))
    assert snapshot.tensors["policy/actor"].tolist() == [1.5, -2.0]
    assert snapshot.values == {"num_timesteps": 640}
    assert (manifest.format_version, manifest.exact, manifest.step) == (0, False, 640)
    assert read_manifest(store.path_of(640)) == manifest
    assert store.latest().path == store.path_of(640)


def test_migrations_run_in_sequence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def from_1_to_2(old: Contents) -> Contents:
        return Contents(old.fields, old.tensors, {**old.values, "second": sorted(old.tensors)})

    monkeypatch.setitem(MIGRATIONS, 0, from_0_to_1)
    monkeypatch.setitem(MIGRATIONS, 1, from_1_to_2)
    for module in ("migrations", "checkpoint"):
        monkeypatch.setattr(f"surefoot.store.{module}.FORMAT_VERSION", 2)
    write_version_0(tmp_path / "c")
    snapshot, _ = read_checkpoint(tmp_path / "c")
    assert snapshot.values == {"num_timesteps": 640, "second": ["policy/actor"]}


def test_every_older_format_has_its_migration() -> None:
    assert sorted(MIGRATIONS) == list(range(1, FORMAT_VERSION))


def test_a_format_without_migration_is_refused_by_name(tmp_path: Path) -> None:
    write_version_0(tmp_path / "c")
    with pytest.raises(CorruptCheckpointError, match="format 0 is older than any"):
        read_checkpoint(tmp_path / "c")


def test_old_contents_that_a_migration_cannot_take_are_corrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(old: Contents) -> Contents:
        return Contents(old.fields, old.tensors, {"x": old.values["missing"]})

    monkeypatch.setitem(MIGRATIONS, 0, fragile)
    write_version_0(tmp_path / "c")
    with pytest.raises(CorruptCheckpointError, match="cannot be brought from format 0 to 1: KeyError"):
        read_checkpoint(tmp_path / "c")


def test_a_newer_format_is_refused_with_the_command_to_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_sample(tmp_path, 1, 1)
    for module in ("migrations", "checkpoint"):
        monkeypatch.setattr(f"surefoot.store.{module}.FORMAT_VERSION", FORMAT_VERSION + 1)
    save_sample(tmp_path, 2, 2)
    monkeypatch.undo()
    with pytest.raises(NewerFormatError, match=r"has format 3, .* up to 2; upgrade with: pip install -U surefoot"):
        read_checkpoint(CheckpointStore(tmp_path).path_of(2))
    with pytest.raises(NewerFormatError):
        CheckpointStore(tmp_path).latest()


def test_a_newer_format_with_other_files_is_still_a_newer_format(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "manifest.json").write_bytes(sealed({"format_version": 7, "files": {}, "shape": "new"}))
    (tmp_path / "c" / "weights.bin").write_bytes(b"new")
    with pytest.raises(NewerFormatError):
        read_checkpoint(tmp_path / "c")


def test_retention_leaves_checkpoints_of_a_newer_format_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.store.checkpoint.FORMAT_VERSION", FORMAT_VERSION + 1)
    monkeypatch.setattr("surefoot.store.migrations.FORMAT_VERSION", FORMAT_VERSION + 1)
    save_sample(tmp_path, 1, 1)
    monkeypatch.undo()
    for step in (2, 3, 4):
        save_sample(tmp_path, step, step, keep_last=1)
    assert CheckpointStore(tmp_path).steps() == [1, 4]
