"""Run directories that are not as Surefoot left them: links, pipes, directories in the place of files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cli.commands import ROWS, Surefoot
from surefoot.store import CheckpointStore
from train.agents import checkpoints

MORE = ("--total-timesteps", str(9 * ROWS), "--quiet")


@pytest.fixture
def run(tmp_path: Path, surefoot: Surefoot) -> Path:
    path = tmp_path / "run"
    assert surefoot.train(path).code == 0
    return path


def refused(surefoot: Surefoot, run: Path, *parts: str) -> None:
    """Neither resume nor inspect go on, and both say why."""
    for ended in (surefoot("resume", run, *MORE), surefoot("inspect", run)):
        assert ended.code == 2
        assert [part for part in parts if part not in ended.err] == []
        assert ended.err.count("\n") == 1
    assert not (run / "run.lock").exists()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["directory", "pipe"])
@pytest.mark.parametrize("name", ["metrics.jsonl", "config.toml", "run.lock"])
def test_what_is_no_file_is_refused_and_not_waited_for(surefoot: Surefoot, run: Path, name: str, kind: str) -> None:
    (run / name).unlink(missing_ok=True)
    if kind == "directory":
        (run / name).mkdir()
    else:
        os.mkfifo(run / name)
    ended = surefoot("resume", run, *MORE)
    assert ended.code == 2
    assert f"{run / name} is not a regular file" in ended.err
    assert surefoot("inspect", run).code == 2


@pytest.mark.timeout(30)
@pytest.mark.parametrize("target", ["/dev/zero", "nowhere", "elsewhere"])
def test_metrics_behind_a_link_are_refused(surefoot: Surefoot, run: Path, target: str) -> None:
    (run / "metrics.jsonl").rename(run.parent / "elsewhere")
    before = (run.parent / "elsewhere").read_bytes()
    (run / "metrics.jsonl").symlink_to(run.parent / target)
    refused(surefoot, run, f"{run / 'metrics.jsonl'} is a symbolic link")
    assert not (run.parent / "nowhere").exists()
    assert (run.parent / "elsewhere").read_bytes() == before


@pytest.mark.parametrize("name", ["checkpoints", "config.toml", "best"])
def test_other_links_are_refused(surefoot: Surefoot, run: Path, name: str) -> None:
    elsewhere = run.parent / "elsewhere"
    if name == "best":
        elsewhere.mkdir()
    else:
        (run / name).rename(elsewhere)
    (run / name).symlink_to(elsewhere)
    refused(surefoot, run, f"{run / name} is a symbolic link")
    if name == "checkpoints":
        assert CheckpointStore(elsewhere).steps() == [0, 3 * ROWS]
        assert surefoot("eval", run).code == 2


def test_a_link_to_nowhere_is_not_trained_into(surefoot: Surefoot, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").symlink_to(tmp_path / "outside")
    assert surefoot.train(tmp_path / "run").code == 2
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("line", ["[1]", "3", '"text"', "null"])
def test_a_line_that_is_no_object_is_named(surefoot: Surefoot, run: Path, line: str) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write(line + "\n")
    ended = surefoot("inspect", run)
    assert ended.code == 2
    assert "metrics.jsonl is damaged in line 4" in ended.err


@pytest.mark.parametrize("content", ["[" * 10_000, '{"step": ' + "9" * 5000 + "}", '{"step": 1e999}'])
def test_a_last_line_that_cannot_be_read_is_dropped_by_a_resume(surefoot: Surefoot, run: Path, content: str) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write(content)
    assert surefoot("inspect", run).code == 0
    assert surefoot("resume", run, *MORE).code == 0
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 9


@pytest.mark.timeout(30)
def test_metrics_without_an_end_are_not_read_into_memory(surefoot: Surefoot, run: Path) -> None:
    os.truncate(run / "metrics.jsonl", 1 << 40)
    for ended in (surefoot("inspect", run), surefoot("resume", run, *MORE)):
        assert ended.code == 2
        assert "metrics.jsonl is damaged in line 4: it is longer than" in ended.err
    (run / "metrics.jsonl").unlink()


@pytest.mark.parametrize("name", ["x[/a]", "[bold]x", "[link=y]"])
def test_names_are_no_markup(surefoot: Surefoot, tmp_path: Path, name: str) -> None:
    run = tmp_path / name
    assert surefoot.train(run).code == 0
    shutil.copytree(run / "checkpoints" / f"{3 * ROWS:012d}", run / "checkpoints" / f"{4 * ROWS:012d}")
    ended = surefoot("inspect", run)
    assert ended.code == 0
    assert name in ended.out.replace("\n", "")
    assert checkpoints(run) == [0, 3 * ROWS, 4 * ROWS]
