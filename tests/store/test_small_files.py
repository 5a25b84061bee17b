from __future__ import annotations

import os
from pathlib import Path

import pytest

from surefoot.errors import StorageError
from surefoot.store.files import SYSTEM
from surefoot.store.swap import put_file


def test_a_small_file_is_replaced_and_leaves_nothing_else(tmp_path: Path) -> None:
    for data in (b"seed = 1", b"", b"seed = 2"):
        put_file(tmp_path / "run" / "config.toml", data, SYSTEM)
        assert (tmp_path / "run" / "config.toml").read_bytes() == data
    assert os.listdir(tmp_path / "run") == ["config.toml"]


def test_leftovers_of_the_dead_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".config.toml.writing-99999999-0123abcd").write_text("half")
    (tmp_path / ".other.toml.writing-99999999-0123abcd").write_text("not ours")
    put_file(tmp_path / "config.toml", b"seed = 1", SYSTEM)
    assert sorted(os.listdir(tmp_path)) == [".other.toml.writing-99999999-0123abcd", "config.toml"]


def test_a_directory_in_its_place_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(StorageError, match="cannot rename"):
        put_file(tmp_path / "config.toml", b"seed = 1", SYSTEM)
    assert os.listdir(tmp_path) == ["config.toml"]
