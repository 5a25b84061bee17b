"""Where metrics go."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from surefoot.errors import MissingExtraError, RunError
from surefoot.store.files import SYSTEM
from surefoot.store.swap import put_file

METRICS_FILE = "metrics.jsonl"


class Sink(Protocol):
    """Takes one line of metrics after another."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics at ``step`` env steps."""

    def close(self) -> None:
        """Flush and release."""


class JsonLines:
    """``metrics.jsonl``: one object per line; numbers that are not finite become null."""

    def __init__(self, directory: Path, resume_at: int | None = None) -> None:
        path = directory / METRICS_FILE
        if resume_at is not None:
            drop_after(path, resume_at)
        self._file = path.open("a", encoding="utf-8")

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        line = {"step": step} | {k: v if math.isfinite(v) else None for k, v in metrics.items()}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()


class TensorBoard:
    """TensorBoard event files in the run directory."""

    def __init__(self, directory: Path, resume_at: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge = None if resume_at is None else resume_at + 1
        self._writer = SummaryWriter(str(directory), purge_step=purge)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        for key, value in metrics.items():
            self._writer.add_scalar(key, value, step)

    def close(self) -> None:
        self._writer.close()


class WandB:
    """Weights & Biases; needs ``pip install surefoot[wandb]``."""

    def __init__(self, directory: Path, resume_at: int | None = None) -> None:
        wandb = _extra("wandb")
        self._run = wandb.init(
            project="surefoot", name=directory.name, dir=str(directory), resume="allow" if resume_at else None
        )

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """MLflow; needs ``pip install surefoot[mlflow]``. The tracking server is MLflow's own setting."""

    def __init__(self, directory: Path, resume_at: int | None = None) -> None:
        del resume_at
        self._mlflow = _extra("mlflow")
        self._run = self._mlflow.start_run(run_name=directory.name)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._mlflow.log_metrics({k: v for k, v in metrics.items() if math.isfinite(v)}, step=step)

    def close(self) -> None:
        self._mlflow.end_run()


SINKS: dict[str, Any] = {"tensorboard": TensorBoard, "wandb": WandB, "mlflow": MLflow}
EXTRAS = ("wandb", "mlflow")


def require_extras(names: tuple[str, ...]) -> None:
    """Raise if a named sink needs a package that is not installed."""
    for name in names:
        if name in EXTRAS:
            _extra(name)


def open_sinks(directory: Path, names: tuple[str, ...], resume_at: int | None = None) -> list[Sink]:
    """``metrics.jsonl`` and the named sinks; on resume, lines beyond ``resume_at`` env steps are dropped."""
    opened: list[Sink] = []
    try:
        for kind in (JsonLines, *(SINKS[name] for name in names)):
            opened.append(kind(directory, resume_at))
    except BaseException:
        for sink in opened:
            sink.close()
        raise
    return opened


def read_metrics(directory: Path) -> list[dict[str, float | None]]:
    """All lines of ``metrics.jsonl``; a torn last line, as a crash leaves it, is passed over."""
    path = directory / METRICS_FILE
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
        except ValueError:  # no JSON, or no text
            if number < len(lines):
                raise RunError(f"{path} is damaged in line {number}") from None
    return found


def drop_after(path: Path, step: int) -> None:
    """Remove lines of a JSON-lines file that lie beyond ``step``: a continued run will write them again."""
    if not path.exists():
        return
    kept = [line for line in path.read_bytes().splitlines() if _step_of(line) <= step]
    put_file(path.absolute(), b"".join(line + b"\n" for line in kept), SYSTEM)


def _step_of(line: bytes) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):  # no JSON, no text, no line of metrics
        return math.inf


def _extra(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(
            f"the sink {name!r} needs the package {name}: pip install 'surefoot[{name}]', or drop it from run.sinks"
        ) from None
