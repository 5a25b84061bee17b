from __future__ import annotations

import os
from pathlib import Path

import pytest

from surefoot.errors import CorruptFileError, StorageError
from surefoot.store import read_json_bounded, write_json_atomic


def test_a_small_file_comes_back_and_leaves_nothing_else(tmp_path: Path) -> None:
    for value in ({"step": 1}, {"step": 2, "loss": float("inf")}, [None, True, -0.0]):
        write_json_atomic(tmp_path / "run" / "best.json", value)
        assert repr(read_json_bounded(tmp_path / "run" / "best.json")) == repr(value)
    assert os.listdir(tmp_path / "run") == ["best.json"]


def test_leftovers_of_the_dead_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".best.json.writing-99999999-0123abcd").write_text("half")
    (tmp_path / ".other.json.writing-99999999-0123abcd").write_text("not ours")
    write_json_atomic(tmp_path / "best.json", 1)
    assert sorted(os.listdir(tmp_path)) == [".other.json.writing-99999999-0123abcd", "best.json"]


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_json_bounded(tmp_path / "none.json")


@pytest.mark.parametrize("text", ["", "{", "[" * 1000, "NaN", '{"a":1,"a":2}', "1 2", "9" * 3000])
def test_other_text_is_corrupt_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "best.json").write_text(text)
    with pytest.raises(CorruptFileError, match=r"best\.json is corrupt"):
        read_json_bounded(tmp_path / "best.json")


def test_a_long_file_is_not_read(tmp_path: Path) -> None:
    write_json_atomic(tmp_path / "best.json", "x" * 100)
    with pytest.raises(CorruptFileError, match="longer than 50 bytes"):
        read_json_bounded(tmp_path / "best.json", max_bytes=50)


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "best.json")
    with pytest.raises(CorruptFileError, match="not a regular file"):
        read_json_bounded(tmp_path / "best.json")


def test_a_directory_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Is a directory"):
        read_json_bounded(tmp_path)
    (tmp_path / "best.json").mkdir()
    with pytest.raises(StorageError, match="cannot rename"):
        write_json_atomic(tmp_path / "best.json", 1)
    assert os.listdir(tmp_path) == ["best.json"]
