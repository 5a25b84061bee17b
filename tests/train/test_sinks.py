"""Where metrics go: whole records on a disk that refuses, the configuration to trackers, failures told once."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from surefoot import PPO
from surefoot.algo.learner import IterationRecord
from surefoot.errors import RunError, StorageError, SurefootWarning
from surefoot.train import appending
from surefoot.train.appending import AppendedFile
from surefoot.train.checkpoint import from_snapshot
from surefoot.train.run import Run, latest_checkpoint, read_config
from train.agents import ROWS, lines, small


class Disk:
    """Takes so many bytes more from this process, then gives an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, code: int = errno.ENOSPC) -> None:
        self.room, self._code, self._write = room, code, os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor: int, data: Any) -> int:
        part = bytes(data)[: self.room]
        if not part:
            raise OSError(self._code, os.strerror(self._code))
        self.room -= len(part)
        return self._write(descriptor, part)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT])
def test_records_are_written_whole_and_in_order_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    file = AppendedFile(tmp_path / "file")
    disk = Disk(monkeypatch, 6, code)
    file.append(b"one\n")
    for record in (b"two\n", b"three\n"):
        with pytest.raises(OSError, match=os.strerror(code)):
            file.append(record)
        assert (tmp_path / "file").read_bytes() == b"one\n"
    disk.room = 100
    file.append(b"four\n")
    file.close()
    assert (tmp_path / "file").read_bytes() == b"one\ntwo\nthree\nfour\n"


def test_what_waits_for_room_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = AppendedFile(tmp_path / "file")
    Disk(monkeypatch, 0)
    for i in range(100):
        with pytest.raises(OSError, match="No space"):
            file.append(bytes([i]) * 10_000)
    waiting = file.unwritten
    assert sum(map(len, waiting)) <= appending.KEPT_BYTES
    assert waiting[-1] == bytes([99]) * 10_000


def test_a_disk_that_is_full_for_the_metrics_is_told_once_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(agent: PPO, record: IterationRecord) -> None:
        if agent.num_timesteps == 2 * ROWS:
            Disk(monkeypatch, 0)
        if agent.num_timesteps == 4 * ROWS:
            monkeypatch.undo()

    with pytest.warns(SurefootWarning) as told:
        small().learn(5 * ROWS, callback=fill, run_dir=tmp_path / "run")
    said = sorted(str(warning.message) for warning in told)
    assert [("No space left on device" in text, "training goes on" in text) for text in said] == [(True, True)] * 2
    assert f"{tmp_path / 'run' / 'events.out'}" in said[0]
    assert f"{tmp_path / 'run' / 'metrics.jsonl'}" in said[1]
    steps = list(range(ROWS, 5 * ROWS + 1, ROWS))
    assert [line["step"] for line in lines(tmp_path / "run")] == steps
    events = EventAccumulator(str(tmp_path / "run")).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == steps


def test_a_checkpoint_that_cannot_be_written_has_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(agent: PPO, record: IterationRecord) -> None:
        Disk(monkeypatch, 0)

    with pytest.warns(SurefootWarning, match="No space"), pytest.raises(StorageError, match="free space") as error:
        small().learn(2 * ROWS, callback=fill, run_dir=tmp_path / "run")
    assert error.value.__context__ is error.value.__cause__
    assert latest_checkpoint(tmp_path / "run").manifest.step == 0


@pytest.mark.parametrize("torn", [1, 40, 10_000])
def test_a_torn_last_line_is_written_again_by_a_resume(tmp_path: Path, torn: int) -> None:
    run = tmp_path / "run"
    small(run={"log_interval": 2}).learn(4 * ROWS, run_dir=run)
    before = lines(run)
    content = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(content[: -min(torn, len(content))])
    _, config, _, extra = from_snapshot(*latest_checkpoint(run)[:2])
    Run.reopen(run, config, 4 * ROWS, extra).close()
    assert lines(run) == (before if torn < 10_000 else before[-1:])


@pytest.mark.parametrize("wicked", [["no JSON"], [3], ['{"step": 1}\n{"step": 2}'], ['{"step": 1e9}'], ["[1]"]])
def test_lines_of_a_checkpoint_that_are_none_are_left_out(tmp_path: Path, wicked: list[Any]) -> None:
    run = tmp_path / "run"
    small().learn(2 * ROWS, run_dir=run)
    before = lines(run)
    Run.reopen(run, read_config(run), 2 * ROWS, {"lines": wicked}).close()
    assert lines(run) == before


def test_an_event_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    run = tmp_path / "run"
    small().learn(ROWS, run_dir=run)
    (event,) = run.glob("events.out.*")
    event.rename(tmp_path / "elsewhere")
    event.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="symbolic link"):
        Run.reopen(run, read_config(run), ROWS)


class Calls(list[tuple[str, Any]]):
    """What a tracker was told."""


def wandb_like(calls: Calls) -> ModuleType:
    """`wandb` as far as it is used, with its signatures."""

    class WandBRun:
        def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
            calls.append(("log", step))

        def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:
            calls.append(("finish", None))

    def init(
        entity: str | None = None,
        project: str | None = None,
        dir: str | None = None,
        id: str | None = None,
        name: str | None = None,
        notes: str | None = None,
        tags: Any = None,
        config: dict[str, Any] | str | None = None,
        resume: bool | str | None = None,
    ) -> WandBRun:
        calls.append(("config", config))
        return WandBRun()

    module = ModuleType("wandb")
    module.init = init  # type: ignore[attr-defined]  # a stand-in is made of such
    return module


def mlflow_like(calls: Calls) -> ModuleType:
    """`mlflow` as far as it is used, with its signatures."""

    def start_run(
        run_id: str | None = None,
        experiment_id: str | None = None,
        run_name: str | None = None,
        nested: bool = False,
        parent_run_id: str | None = None,
        tags: dict[str, Any] | None = None,
        description: str | None = None,
        log_system_metrics: bool | None = None,
    ) -> object:
        return object()

    def log_params(params: dict[str, Any], synchronous: bool | None = None, run_id: str | None = None) -> None:
        calls.append(("config", params))

    def log_metrics(
        metrics: dict[str, float], step: int | None = None, synchronous: bool | None = None, run_id: str | None = None
    ) -> None:
        calls.append(("log", step))

    def end_run(status: str = "FINISHED") -> None:
        calls.append(("finish", None))

    module = ModuleType("mlflow")
    for function in (start_run, log_params, log_metrics, end_run):
        setattr(module, function.__name__, function)
    return module


@pytest.mark.parametrize(("name", "make"), [("wandb", wandb_like), ("mlflow", mlflow_like)])
def test_trackers_get_the_configuration_and_every_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, make: Any
) -> None:
    calls = Calls()
    monkeypatch.setitem(sys.modules, name, make(calls))
    small(gamma=0.9, run={"sinks": (name,)}).learn(2 * ROWS, run_dir=tmp_path / "run")
    (_, config), *rest = calls
    assert rest == [("log", ROWS), ("log", 2 * ROWS), ("finish", None)]
    found = config["ppo"]["gamma"] if name == "wandb" else config["ppo.gamma"]
    assert found == 0.9


def test_a_tracker_that_fails_is_told_of_once_and_does_not_end_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = mlflow_like(Calls())

    def log_metrics(metrics: dict[str, float], step: int | None = None) -> None:
        raise ConnectionError("no route to host")

    module.log_metrics = log_metrics  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", module)
    with pytest.warns(SurefootWarning, match="MLflow: ConnectionError: no route to host") as told:
        small(run={"sinks": ("mlflow",)}).learn(3 * ROWS, run_dir=tmp_path / "run")
    assert len(told) == 1
    assert len(lines(tmp_path / "run")) == 3
