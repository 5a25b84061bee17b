"""Where metrics go."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from surefoot.config import Config
from surefoot.config.load import flat_settings
from surefoot.errors import MissingExtraError, RunError, SurefootWarning
from surefoot.store.files import SYSTEM
from surefoot.store.swap import put_file
from surefoot.train.appending import KEPT_BYTES, AppendedFile, read_lines

METRICS_FILE = "metrics.jsonl"
EVENT_FILES = "events.out.tfevents."


class Sink(Protocol):
    """Takes one line of metrics after another."""

    name: str
    """As messages call it."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics at ``step`` env steps."""

    def sync(self) -> None:
        """Make durable what was written."""

    def close(self) -> None:
        """Flush and release."""


class JsonLines:
    """``metrics.jsonl``: one object per line; numbers that are not finite become null.

    On resume, lines beyond ``resume_at`` env steps are dropped, and those of ``known`` that are not there are written.
    """

    def __init__(self, directory: Path, resume_at: int | None = None, known: Sequence[Any] = ()) -> None:
        self.name = str(directory / METRICS_FILE)
        if resume_at is not None:
            drop_after(directory / METRICS_FILE, resume_at, known)
        self._file = AppendedFile(directory / METRICS_FILE)
        self._last: list[bytes] = []

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        line = {"step": step} | {k: v if math.isfinite(v) else None for k, v in metrics.items()}
        self._last = [json.dumps(line).encode() + b"\n"]
        self._file.append(self._last[0])

    def lines_at_risk(self) -> list[str]:
        """Lines that a checkpoint carries: those that wait for room on the disk, and the last, which a crash tears."""
        lines = dict.fromkeys([*self._file.unwritten, *self._last])
        return [line.decode().removesuffix("\n") for line in lines if len(line) <= KEPT_BYTES]

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


class TensorBoard:
    """A TensorBoard event file in the run directory. Each line is one record, written at once and by this thread: an
    error of the disk is met where it can be handled."""

    def __init__(self, directory: Path, config: Config, resume_at: int | None = None) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        del config
        self._event, self._summary, self._records = event_pb2.Event, summary_pb2.Summary, RecordWriter
        stem = f"{EVENT_FILES}{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        path = next(path for i in count() if not os.path.lexists(path := directory / f"{stem}.{i}"))
        self.name = str(path)
        self._file = AppendedFile(path, new=True)
        self._append(file_version="brain.Event:2")
        if resume_at is not None:  # readers drop what earlier files hold beyond this step
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._append(step=resume_at + 1, session_log=start)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        values = [self._summary.Value(tag=_tag(key), simple_value=value) for key, value in metrics.items()]
        self._append(step=step, summary=self._summary(value=values))

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def _append(self, **content: Any) -> None:
        record = _Bytes()
        self._records(record).write(self._event(wall_time=time.time(), **content).SerializeToString())
        self._file.append(b"".join(record.parts))


class _Bytes:
    """What a writer of records writes to."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, part: bytes) -> None:
        self.parts.append(part)


class WandB:
    """Weights & Biases; needs ``pip install surefoot[wandb]``."""

    name = "Weights & Biases"

    def __init__(self, directory: Path, config: Config, resume_at: int | None = None) -> None:
        wandb = _extra("wandb")
        self._run = wandb.init(
            project="surefoot",
            name=directory.name,
            dir=str(directory),
            config=config.model_dump(mode="json"),
            resume="allow" if resume_at else None,
        )

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def sync(self) -> None:
        pass

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """MLflow; needs ``pip install surefoot[mlflow]``. The tracking server is MLflow's own setting."""

    name = "MLflow"

    def __init__(self, directory: Path, config: Config, resume_at: int | None = None) -> None:
        del resume_at
        self._mlflow = _extra("mlflow")
        self._run = self._mlflow.start_run(run_name=directory.name)
        self._mlflow.log_params(flat_settings(config))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._mlflow.log_metrics({k: v for k, v in metrics.items() if math.isfinite(v)}, step=step)

    def sync(self) -> None:
        pass

    def close(self) -> None:
        self._mlflow.end_run()


class Patient:
    """A sink whose failures are told once, and never end training; each line is another try."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._told = False

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        try:
            self.sink.write(step, metrics)
        except Exception as error:
            self._tell(error)

    def sync(self) -> None:
        try:
            self.sink.sync()
        except Exception as error:
            self._tell(error)

    def close(self) -> None:
        try:
            self.sink.close()
        except Exception as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            warnings.warn(
                f"metrics cannot be written to {self.sink.name}: {reason}; training goes on, and each further line "
                "is tried again",
                SurefootWarning,
                stacklevel=4,
            )


SINKS: dict[str, Any] = {"tensorboard": TensorBoard, "wandb": WandB, "mlflow": MLflow}
EXTRAS = ("wandb", "mlflow")


def require_extras(names: tuple[str, ...]) -> None:
    """Raise if a named sink needs a package that is not installed."""
    for name in names:
        if name in EXTRAS:
            _extra(name)


class Sinks:
    """``metrics.jsonl`` and the sinks of the configuration; on resume at ``resume_at`` env steps, with lines of metrics
    that are ``known`` from the checkpoint."""

    def __init__(
        self, directory: Path, config: Config, resume_at: int | None = None, known: Sequence[Any] = ()
    ) -> None:
        self._lines = JsonLines(directory, resume_at, known)
        self._all = [Patient(self._lines)]
        try:
            self._all += [Patient(SINKS[name](directory, config, resume_at)) for name in config.run.sinks]
        except BaseException:
            self.close()
            raise

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """One line to every sink."""
        for sink in self._all:
            sink.write(step, metrics)

    def lines_at_risk(self) -> list[str]:
        """What a checkpoint must carry for ``metrics.jsonl`` to be complete after a crash, if the rest is synced."""
        return self._lines.lines_at_risk()

    def sync(self) -> None:
        """Make durable what was written."""
        for sink in self._all:
            sink.sync()

    def close(self) -> None:
        """Flush and release all."""
        for sink in self._all:
            sink.close()


def read_metrics(directory: Path) -> list[dict[str, float | None]]:
    """All lines of ``metrics.jsonl``; a torn last line, as a crash leaves it, is passed over."""
    return list(each_line(directory))


def each_line(directory: Path) -> Iterator[dict[str, float | None]]:
    """`read_metrics`, one line after the other."""
    path = directory / METRICS_FILE
    torn = 0
    for number, line in enumerate(read_lines(path), 1):
        if torn:
            raise RunError(f"{path} is damaged in line {torn}")
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):  # no JSON, or no text
            torn = number
            continue
        if not isinstance(found, dict):
            raise RunError(f"{path} is damaged in line {number}: it is no object")
        yield found


def drop_after(path: Path, step: int, known: Sequence[Any] = ()) -> None:
    """Drop the lines that lie beyond ``step``, which a continued run will write again, and torn ones; write those that
    are ``known`` and not there."""
    kept = [(at, line) for line in read_lines(path) if (at := _step_of(line)) <= step]
    there = {at for at, _ in kept}
    for text in known:
        line = text.encode() if isinstance(text, str) and "\n" not in text else b""
        if (at := _step_of(line)) <= step and at not in there:
            kept.append((at, line))
    if kept or path.exists():
        in_order = sorted(kept, key=lambda entry: entry[0])
        put_file(path.absolute(), b"".join(line + b"\n" for _, line in in_order), SYSTEM)


def _step_of(line: bytes) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # no JSON, no text, no line of metrics
        return math.inf


def _tag(key: str) -> str:
    """As TensorBoard takes it."""
    return re.sub(r"[^-/\w.]", "_", key).lstrip("/")


def _extra(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(
            f"the sink {name!r} needs the package {name}: pip install 'surefoot[{name}]', or drop it from run.sinks"
        ) from None
