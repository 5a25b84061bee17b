"""One process writes a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from surefoot.errors import RunError
from surefoot.train.lock import RunLock, require_unlocked
from surefoot.train.run import Run, read_config
from train.agents import ROWS, small


def test_a_second_lock_is_refused_with_the_process_of_the_first(tmp_path: Path) -> None:
    first = RunLock(tmp_path)
    with pytest.raises(RunError, match=f"process {os.getpid()} is writing the run {tmp_path}"):
        RunLock(tmp_path)
    with pytest.raises(RunError, match=f"process {os.getpid()}"):
        require_unlocked(tmp_path)
    first.release()
    first.release()
    require_unlocked(tmp_path)
    assert list(tmp_path.iterdir()) == []
    RunLock(tmp_path).release()


def test_the_file_of_a_dead_process_is_no_lock(tmp_path: Path) -> None:
    code = "import os, sys; from surefoot.train.lock import RunLock; RunLock(__import__('pathlib').Path(sys.argv[1]))"
    dying = f"{code}; os.kill(os.getpid(), 9)"
    ended = subprocess.run([sys.executable, "-c", dying, str(tmp_path)], check=False, timeout=60)
    assert ended.returncode == -9
    assert (tmp_path / "run.lock").exists()
    lock = RunLock(tmp_path)
    assert (tmp_path / "run.lock").read_text() == f"{os.getpid()}\n"
    lock.release()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_hold_on_to_the_lock(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.read(ready, 1)  # lives on until it is told
        os._exit(0)
    try:
        lock.release()
        RunLock(tmp_path).release()
    finally:
        os.close(go)
        os.close(ready)
        os.waitpid(child, 0)


def test_a_run_is_locked_while_it_is_open(tmp_path: Path) -> None:
    run = tmp_path / "run"
    small().learn(ROWS, run_dir=run)
    opened = Run.reopen(run, read_config(run), ROWS)
    with pytest.raises(RunError, match=f"process {os.getpid()} is writing"):
        Run.reopen(run, read_config(run), ROWS)
    with pytest.raises(RunError, match=f"process {os.getpid()} is writing"):
        small().learn(ROWS, run_dir=run)
    opened.close()
    Run.reopen(run, read_config(run), ROWS).close()


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="symbolic link"):
        RunLock(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
