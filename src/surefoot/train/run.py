"""The directory of a run: configuration, metrics, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.algo.learner import Learner
from surefoot.config import Config, config_hash, from_dict, from_toml, to_toml
from surefoot.errors import RunError
from surefoot.store import CheckpointStore, Snapshot
from surefoot.store.checkpoints import Found
from surefoot.train.checkpoint import to_snapshot, versions
from surefoot.train.sinks import METRICS_FILE, Sink, open_sinks

CONFIG_FILE = "config.toml"
CHECKPOINTS = "checkpoints"
BEST = "best"


@dataclass(frozen=True)
class Captured:
    """A state between two iterations."""

    timesteps: int
    snapshot: Snapshot
    exact: bool


@dataclass
class Run:
    """An open run directory."""

    path: Path
    config: Config
    checkpoints: CheckpointStore
    sinks: list[Sink]

    @classmethod
    def create(cls, path: Path, config: Config) -> Run:
        """A new run; a directory that already holds one is refused."""
        if (path / CONFIG_FILE).exists() or (path / CHECKPOINTS).exists() or (path / METRICS_FILE).exists():
            raise RunError(
                f"{path} already holds a run; continue it with `surefoot resume {path}`, or choose another directory"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / CONFIG_FILE).write_text(to_toml(config), encoding="utf-8")
        except OSError as error:
            raise RunError(f"cannot write the run directory {path}: {error.strerror}") from error
        return cls(path, config, _store(path, config), open_sinks(path, config.run.sinks))

    @classmethod
    def reopen(cls, path: Path, config: Config, timesteps: int) -> Run:
        """Continue at ``timesteps`` env steps: metrics beyond them are dropped, they will be written again."""
        (path / CONFIG_FILE).write_text(to_toml(config), encoding="utf-8")
        return cls(path, config, _store(path, config), open_sinks(path, config.run.sinks, timesteps))

    def capture(self, learner: Learner, callbacks: Mapping[str, Any]) -> Captured:
        """A copy, in memory, of the learner and the callbacks."""
        state = learner.state()
        snapshot = to_snapshot(state, self.config, {"callbacks": dict(callbacks)})
        return Captured(learner.timesteps, snapshot, state.exact)

    def save(self, captured: Captured) -> Path:
        """Write a checkpoint."""
        return self.checkpoints.save(
            captured.timesteps,
            captured.snapshot,
            exact=captured.exact,
            config_hash=config_hash(self.config),
            versions=versions(),
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """One line of metrics to every sink."""
        for sink in self.sinks:
            sink.write(step, metrics)

    def close(self) -> None:
        """Flush the sinks."""
        for sink in self.sinks:
            sink.close()


def read_config(path: Path) -> Config:
    """The configuration of an existing run."""
    require_run(path)
    return from_dict(from_toml(path / CONFIG_FILE))


def latest_checkpoint(path: Path) -> Found:
    """The newest checkpoint of a run that verifies, and those that were passed over."""
    require_run(path)
    return CheckpointStore(path / CHECKPOINTS).latest()


def require_run(path: Path) -> None:
    """Raise if there is no run in the directory."""
    if not path.is_dir():
        raise RunError(f"there is no run directory {path}")
    if not (path / CONFIG_FILE).is_file():
        raise RunError(f"{path} holds no run: {CONFIG_FILE} is missing")


def _store(path: Path, config: Config) -> CheckpointStore:
    return CheckpointStore(path / CHECKPOINTS, keep_last=config.run.keep_checkpoints)
