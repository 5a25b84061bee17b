from __future__ import annotations

import errno
import json
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faults.samples import VERSIONS, hidden_entries, is_sample, same, sample, write_sample
from surefoot.errors import CheckpointError, CorruptCheckpointError, NoCheckpointError, StorageError
from surefoot.store import FORMAT_VERSION, Snapshot, read_checkpoint, read_manifest, write_checkpoint


def test_a_checkpoint_is_three_files_with_a_manifest_that_describes_them(tmp_path: Path) -> None:
    path = write_checkpoint(
        tmp_path / "c", sample(1), exact=True, config_hash="abc", versions={"surefoot": "1"}, step=5
    )
    assert path == tmp_path / "c"
    assert sorted(entry.name for entry in path.iterdir()) == ["manifest.json", "state.json", "tensors.safetensors"]
    text = json.loads((path / "manifest.json").read_text())
    sizes = {name: record["size"] for name, record in text["files"].items()}
    assert sizes == {name: (path / name).stat().st_size for name in ("tensors.safetensors", "state.json")}
    manifest = read_manifest(path)
    assert manifest == read_checkpoint(path)[1]
    assert (manifest.format_version, manifest.exact, manifest.config_hash) == (FORMAT_VERSION, True, "abc")
    assert (manifest.step, dict(manifest.versions)) == (5, {"surefoot": "1"})


def test_equal_states_make_equal_files(tmp_path: Path) -> None:
    one, two = write_sample(tmp_path / "one", 1), write_sample(tmp_path / "two", 1)
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in os.listdir(one))


def test_missing_parents_are_made(tmp_path: Path) -> None:
    write_sample(tmp_path / "a" / "b" / "c", 1)
    assert is_sample(read_checkpoint(tmp_path / "a" / "b" / "c")[0], 1)


def test_saving_again_to_the_same_path_replaces_it_and_leaves_nothing_else(tmp_path: Path) -> None:
    for generation in (1, 2, 3):
        write_sample(tmp_path / "agent", generation)
    assert is_sample(read_checkpoint(tmp_path / "agent")[0], 3)
    assert os.listdir(tmp_path) == ["agent"]


def test_a_relative_path_and_a_string_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_checkpoint("agent", sample(1), exact=True, config_hash="h", versions={})
    assert same(read_checkpoint("./x/../agent")[0], sample(1))


def test_a_path_without_a_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoCheckpointError, match=str(tmp_path / "none")):
        read_checkpoint(tmp_path / "none")


@pytest.mark.parametrize("entry", ["notes.txt", "sub/notes.txt", "state.json/notes.txt", ".git/config"])
def test_a_directory_with_other_files_is_never_replaced(tmp_path: Path, entry: str) -> None:
    target = tmp_path / "work"
    (target / entry).parent.mkdir(parents=True)
    (target / entry).write_text("precious")
    with pytest.raises(CheckpointError, match="not part of a checkpoint"):
        write_sample(target, 1)
    assert (target / entry).read_text() == "precious"
    assert os.listdir(tmp_path) == ["work"]


def test_a_file_or_a_link_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="is a file"):
        write_sample(tmp_path / "file", 1)
    with pytest.raises(CheckpointError, match="is a symbolic link"):
        write_sample(tmp_path / "link", 1)
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


def test_a_parent_that_is_a_file_is_a_storage_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match=f"cannot create directory {tmp_path / 'file'}"):
        write_sample(tmp_path / "file" / "c", 1)


def test_a_name_too_long_for_the_disk_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="File name too long"):
        write_sample(tmp_path / ("x" * 250), 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [{"step": -1}, {"step": True}, {"config_hash": 7}, {"versions": {"torch": 2}}, {"exact": 1}]
)
def test_a_manifest_that_could_not_be_read_back_is_not_written(tmp_path: Path, arguments: dict[str, Any]) -> None:
    good: dict[str, Any] = {"exact": True, "config_hash": "h", "versions": VERSIONS}
    with pytest.raises(CheckpointError, match="cannot be saved"):
        write_checkpoint(tmp_path / "c", sample(1), **{**good, **arguments})
    assert list(tmp_path.iterdir()) == []


def test_no_permission_to_read_is_told_as_such_and_not_as_corruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sample(tmp_path / "c", 1)
    fail_to_open(monkeypatch, "state.json", errno.EACCES)
    with pytest.raises(StorageError, match=r"cannot read .*Permission denied"):
        read_checkpoint(tmp_path / "c")


def test_a_bad_sector_is_corruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sample(tmp_path / "c", 1)
    fail_to_open(monkeypatch, "tensors.safetensors", errno.EIO)
    with pytest.raises(CorruptCheckpointError, match="Input/output error"):
        read_checkpoint(tmp_path / "c")


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("kind", ["fifo", "link", "directory"])
def test_only_regular_files_are_opened(tmp_path: Path, name: str, kind: str) -> None:
    file = write_sample(tmp_path / "c", 1) / name
    file.rename(tmp_path / "outside")
    make = {"fifo": os.mkfifo, "directory": os.mkdir, "link": lambda path: path.symlink_to(tmp_path / "outside")}
    make[kind](file)
    with pytest.raises(CorruptCheckpointError, match=f"{name} is not a regular file"):
        read_checkpoint(tmp_path / "c")


def fail_to_open(monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    """Let os.open fail for files of this name."""
    real = os.open

    def open_or_fail(path: str | os.PathLike[str], flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if os.path.basename(path) == name:
            raise OSError(code, os.strerror(code))
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", open_or_fail)


def test_what_does_not_read_back_never_takes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sample(tmp_path / "agent", 1)
    real = os.write

    def write_wrongly(descriptor: int, data: memoryview) -> int:
        return real(descriptor, bytes([data[0] ^ 1]) + bytes(data[1:]))

    monkeypatch.setattr(os, "write", write_wrongly)
    with pytest.raises(CheckpointError, match="does not read back"):
        write_sample(tmp_path / "agent", 2)
    monkeypatch.undo()
    assert is_sample(read_checkpoint(tmp_path / "agent")[0], 1)
    assert hidden_entries(tmp_path) == []


def test_a_reader_never_fails_while_a_writer_replaces_the_checkpoint(tmp_path: Path) -> None:
    target = tmp_path / "agent"
    write_sample(target, 0)
    done = threading.Event()

    def replace() -> None:
        for generation in range(1, 40):
            write_sample(target, generation)
        done.set()

    writer = threading.Thread(target=replace)
    writer.start()
    seen = [0]
    while not done.is_set():
        snapshot, _ = read_checkpoint(target)
        seen.append(snapshot.values["generation"])
        assert is_sample(snapshot, seen[-1])
    writer.join(timeout=30)
    assert seen == sorted(seen)
    assert len(set(seen)) > 2


def test_reading_takes_little_more_memory_than_the_arrays(tmp_path: Path) -> None:
    data = np.zeros(2_000_000, np.float64)
    write_checkpoint(tmp_path / "c", Snapshot({"x": data}, {}), exact=True, config_hash="h", versions={})
    tracemalloc.start()
    try:
        read_checkpoint(tmp_path / "c")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < data.nbytes + (4 << 20)
