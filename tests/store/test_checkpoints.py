from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faults.samples import hidden_entries, is_sample, save_sample, write_sample
from surefoot.errors import CheckpointError, NoCheckpointError
from surefoot.store import CheckpointStore, read_checkpoint


def generation(store: CheckpointStore) -> int:
    found = store.latest().snapshot.values["generation"]
    assert isinstance(found, int)
    return found


def test_the_newest_step_is_the_latest_by_number_and_not_by_time(tmp_path: Path) -> None:
    for step in (300, 5, 20):
        save_sample(tmp_path, step, step)
    found = CheckpointStore(tmp_path).latest()
    assert (found.manifest.step, found.path, found.skipped) == (300, tmp_path / "000000000300", [])
    assert CheckpointStore(tmp_path).steps() == [5, 20, 300]


def test_steps_beyond_the_padding_sort_right(tmp_path: Path) -> None:
    for step in (999_999_999_999, 1_000_000_000_000):
        save_sample(tmp_path, step, step % 7)
    assert CheckpointStore(tmp_path).latest().manifest.step == 1_000_000_000_000


def test_nothing_there_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "run" / "checkpoints")
    assert store.steps() == []
    with pytest.raises(NoCheckpointError, match=str(store.root)):
        store.latest()
    assert list(tmp_path.iterdir()) == []


def test_each_skipped_checkpoint_is_named_with_its_reason(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        save_sample(tmp_path, step, step, keep_last=9)
    store = CheckpointStore(tmp_path)
    (store.path_of(4) / "manifest.json").unlink()
    (store.path_of(3) / "state.json").write_bytes(b"{}")
    found = store.latest()
    assert found.manifest.step == 2
    assert [path for path, _ in found.skipped] == [store.path_of(4), store.path_of(3)]
    reasons = " | ".join(reason for _, reason in found.skipped)
    assert "manifest.json is missing" in reasons
    assert "state.json has 2 bytes" in reasons


def test_if_none_verifies_the_error_names_them_all(tmp_path: Path) -> None:
    for step in (1, 2):
        (save_sample(tmp_path, step, step) / "tensors.safetensors").write_bytes(b"")
    with pytest.raises(NoCheckpointError) as caught:
        CheckpointStore(tmp_path).latest()
    assert [path.name for path, _ in caught.value.skipped] == ["000000000002", "000000000001"]
    assert "000000000002: tensors.safetensors has 0 bytes" in str(caught.value)


@pytest.mark.parametrize("name", ["best", ".000000000009", "9.tmp", "-9", "٩", "9 ", "0x9", "1" * 19])
def test_other_names_are_not_checkpoints(tmp_path: Path, name: str) -> None:
    save_sample(tmp_path, 1, 1)
    shutil.copytree(CheckpointStore(tmp_path).path_of(1), tmp_path / name)
    assert CheckpointStore(tmp_path).steps() == [1]


def test_links_and_files_in_the_place_of_a_checkpoint_are_skipped_by_name(tmp_path: Path) -> None:
    save_sample(tmp_path / "run", 1, 1)
    outside = write_sample(tmp_path / "outside", 9)
    store = CheckpointStore(tmp_path / "run")
    store.path_of(2).symlink_to(outside)
    store.path_of(3).write_bytes(b"")
    store.path_of(4).symlink_to("nowhere")
    found = store.latest()
    assert found.manifest.step == 1
    assert [reason for _, reason in found.skipped] == [
        "it is a symbolic link",
        "it cannot be read: Not a directory",
        "it is a symbolic link",
    ]


def test_the_last_k_stay(tmp_path: Path) -> None:
    for step in (0, 40, 80, 120):
        save_sample(tmp_path, step, step, keep_last=2)
    assert CheckpointStore(tmp_path).steps() == [80, 120]
    assert hidden_entries(tmp_path) == []


def test_the_checkpoint_just_saved_stays_even_if_its_step_is_not_the_highest(tmp_path: Path) -> None:
    for step in (100, 200, 50):
        save_sample(tmp_path, step, step, keep_last=1)
    assert CheckpointStore(tmp_path).steps() == [50, 200]


def test_damaged_checkpoints_do_not_push_good_ones_out(tmp_path: Path) -> None:
    save_sample(tmp_path, 1, 1, keep_last=2)
    (save_sample(tmp_path, 3, 3, keep_last=2) / "state.json").write_bytes(b"")
    save_sample(tmp_path, 2, 2, keep_last=2)
    assert CheckpointStore(tmp_path).steps() == [1, 2, 3]
    assert generation(CheckpointStore(tmp_path)) == 2


def test_the_same_step_can_be_saved_again(tmp_path: Path) -> None:
    save_sample(tmp_path, 1, 1)
    save_sample(tmp_path, 1, 2)
    assert generation(CheckpointStore(tmp_path)) == 2
    assert os.listdir(tmp_path) == ["000000000001"]


@pytest.mark.parametrize("step", [-1, 10**18])
def test_a_step_that_is_no_count_is_refused(tmp_path: Path, step: int) -> None:
    with pytest.raises(CheckpointError, match="not a count"):
        save_sample(tmp_path, step, 1)


def test_to_keep_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="at least 1"):
        CheckpointStore(tmp_path, keep_last=0)


def test_what_is_hidden_and_of_a_living_process_or_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    others = [
        f".000000000003.writing-{os.getppid()}-0123abcd",
        ".000000000003.writing-notes",
        ".model.writing-99999999-0123abcd",
        ".cache",
    ]
    for name in others:
        (tmp_path / name).mkdir(parents=True)
    foreign = tmp_path / ".000000000004.writing-99999999-0123abcd"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("precious")
    stale = tmp_path / ".000000000005.writing-99999999-0123abcd"
    stale.mkdir()
    save_sample(tmp_path, 1, 1)
    assert not stale.exists()
    assert hidden_entries(tmp_path) == sorted([*others, foreign.name])


def test_reading_changes_nothing_even_with_leftovers_of_the_dead(tmp_path: Path) -> None:
    save_sample(tmp_path, 1, 1)
    store = CheckpointStore(tmp_path)
    store.path_of(1).rename(tmp_path / ".000000000001.previous")
    (tmp_path / ".000000000002.writing-99999999-0123abcd").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert is_sample(store.latest().snapshot, 1)
    assert is_sample(read_checkpoint(store.path_of(1))[0], 1)
    assert sorted(tmp_path.rglob("*")) == before


def test_threads_of_one_process_may_save_at_the_same_time(tmp_path: Path) -> None:
    def save(first: int) -> None:
        for step in range(first, 60, 2):
            save_sample(tmp_path, step, step, keep_last=99)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(save, 0), pool.submit(save, 1)]:
            done.result(timeout=60)
    assert CheckpointStore(tmp_path).steps() == list(range(60))
    assert hidden_entries(tmp_path) == []


def test_a_reader_finds_a_checkpoint_while_a_writer_saves_and_removes(tmp_path: Path) -> None:
    save_sample(tmp_path, 1, 1, keep_last=1)
    enough = threading.Event()

    def save_on() -> None:
        for step in range(2, 5000):
            save_sample(tmp_path, step, step, keep_last=1)
            if enough.is_set():
                return

    writer = threading.Thread(target=save_on)
    writer.start()
    seen, deadline = [1], time.monotonic() + 60  # however slow the machine is, the reader meets several of them
    while len(set(seen)) <= 10 and time.monotonic() < deadline:
        found = CheckpointStore(tmp_path).latest()
        seen.append(found.snapshot.values["generation"])
        assert is_sample(found.snapshot, seen[-1])
    enough.set()
    writer.join(timeout=30)
    assert seen == sorted(seen)
    assert len(set(seen)) > 10
