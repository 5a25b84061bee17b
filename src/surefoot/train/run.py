"""The directory of a run: configuration, metrics, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.algo.learner import Learner
from surefoot.config import Config, config_hash, from_dict, from_toml, to_toml
from surefoot.config.load import flat_settings, with_new_names
from surefoot.errors import RunError
from surefoot.store import CheckpointStore, Found, Snapshot
from surefoot.store.files import SYSTEM, is_real_directory, naming
from surefoot.store.swap import put_file
from surefoot.train.checkpoint import to_snapshot, versions
from surefoot.train.lock import LOCK_FILE, RunLock, require_unlocked
from surefoot.train.sinks import EVENT_FILES, METRICS_FILE, Sinks, require_extras

CONFIG_FILE = "config.toml"
CHECKPOINTS = "checkpoints"
BEST = "best"
FREE_TO_CHANGE = ("run", "total_timesteps")
"""Settings of a run that may be edited between two parts of it; the others decide the training."""


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
    sinks: Sinks
    lock: RunLock
    pending: dict[str, float] = field(default_factory=dict)
    """Metrics since the last line that was written."""

    @classmethod
    def create(cls, path: Path, config: Config) -> Run:
        """A new run; a directory that already holds one is refused."""
        require_extras(config.run.sinks)
        text = to_toml(config)
        try:
            _require_vacant(path)
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write the run directory {path}: {error.strerror}") from error
        lock = RunLock(path)
        try:
            _require_vacant(path)  # another process may have made a run of it just now
            require_own_files(path)
            _write_config(path, text)
            return cls(path, config, _store(path, config), Sinks(path, config), lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def reopen(
        cls,
        path: Path,
        config: Config,
        timesteps: int,
        extra: Mapping[str, Any] | None = None,
        lock: RunLock | None = None,
    ) -> Run:
        """Continue at ``timesteps`` env steps: metrics beyond them are dropped, they will be written again.

        ``extra`` is what the checkpoint holds besides the learner; ``lock`` is the run's, if the caller has it already.
        """
        require_extras(config.run.sinks)
        lock = RunLock(path) if lock is None else lock
        try:
            require_own_files(path)
            _write_config(path, to_toml(config))
            extra = extra or {}
            pending, known = dict(extra.get("pending", {})), list(extra.get("lines", []))
            return cls(path, config, _store(path, config), Sinks(path, config, timesteps, known), lock, pending)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def restart(cls, path: Path, config: Config, lock: RunLock | None = None) -> Run:
        """Start again in the directory of a run; its old checkpoints are moved aside, its metrics dropped."""
        require_extras(config.run.sinks)
        lock = RunLock(path) if lock is None else lock
        try:
            put_aside(path / CHECKPOINTS)
        except BaseException:
            lock.release()
            raise
        return cls.reopen(path, config, 0, lock=lock)

    def capture(self, learner: Learner, callbacks: Mapping[str, Any]) -> Captured:
        """A copy, in memory, of the learner and the callbacks."""
        state = learner.state_dict()
        lines = self.sinks.lines_at_risk()
        extra = {"callbacks": dict(callbacks), "pending": dict(self.pending), "lines": lines}
        snapshot = to_snapshot(state, self.config, learner.envs, extra)
        return Captured(learner.timesteps, snapshot, state.exact)

    def save(self, captured: Captured) -> Path:
        """Write a checkpoint, once the metrics before it are as durable as it will be."""
        self.sinks.sync()
        return self.checkpoints.save(
            captured.timesteps,
            captured.snapshot,
            exact=captured.exact,
            config_hash=config_hash(self.config),
            versions=versions(),
        )

    def note(self, metrics: Mapping[str, float]) -> None:
        """Add metrics to the next line."""
        self.pending |= {k: v if isinstance(v, int) else float(v) for k, v in metrics.items()}

    def write_line(self, step: int) -> None:
        """One line to every sink, with all metrics since the last."""
        self.sinks.write(step, self.pending)
        self.pending = {}

    @property
    def how_to_go_on(self) -> str:
        """What to do to continue the run."""
        if self.config.env:
            return f"go on with `surefoot resume {self.path}`"
        return f"go on with PPO.load('{self.path / CHECKPOINTS}/…', env=…)"

    def close(self) -> None:
        """Flush the sinks and let other processes in."""
        try:
            self.sinks.close()
        finally:
            self.lock.release()


def read_config(path: Path) -> Config:
    """The configuration of an existing run."""
    require_run(path)
    return from_dict(with_new_names(from_toml(path / CONFIG_FILE)))


def latest_checkpoint(path: Path) -> Found:
    """The newest checkpoint of a run that verifies, and those that were passed over."""
    require_run(path)
    return CheckpointStore(path / CHECKPOINTS).latest()


def require_unchanged(path: Path, edited: Config, saved: Config) -> None:
    """Raise if the file of a run says something else than its checkpoint about what decides the training."""
    now, then = flat_settings(edited), flat_settings(saved)
    differing = [
        f"{name} = {now.get(name)!r} (trained with {then.get(name)!r})"
        for name in sorted(now.keys() | then.keys())
        if now.get(name) != then.get(name) and name.partition(".")[0] not in FREE_TO_CHANGE
    ]
    if differing:
        raise RunError(
            f"{path / CONFIG_FILE} was changed: {'; '.join(differing)}. Only total_timesteps and [run] may change "
            f"within a run: set the old values again, or train anew with `surefoot train --config {path / CONFIG_FILE}`"
        )


def put_aside(path: Path) -> None:
    """Rename a directory to the first free name beside it."""
    if not path.exists():
        return
    number = 1
    while (aside := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    try:
        path.rename(aside)
    except OSError as error:
        raise RunError(f"cannot move {path} aside: {error.strerror}") from error


def require_run(path: Path) -> None:
    """Raise if there is no run in the directory, or one that is not what Surefoot leaves."""
    try:
        if not path.is_dir():
            raise RunError(f"there is no run directory {path}")
    except OSError as error:
        raise RunError(f"cannot read the run directory {path}: {error.strerror}") from None
    require_own_files(path)
    if not (path / CONFIG_FILE).exists():
        raise RunError(f"{path} holds no run: {CONFIG_FILE} is missing")


def require_own_files(path: Path) -> None:
    """Raise if a part of a run is a link, which could lead out of it, or not the kind of file it should be."""
    with naming("list", path):
        events = sorted(name for name in os.listdir(path) if name.startswith(EVENT_FILES))
    for name in (CONFIG_FILE, METRICS_FILE, LOCK_FILE, CHECKPOINTS, BEST, *events):
        part = path / name
        if part.is_symlink():
            raise RunError(f"{part} is a symbolic link; a run holds none: put the files themselves there")
        if name in (CHECKPOINTS, BEST):
            if part.exists() and not is_real_directory(part):
                raise RunError(f"{part} is not a directory: remove it")
        elif part.exists() and not part.is_file():
            raise RunError(f"{part} is not a regular file: remove it")


def _require_vacant(path: Path) -> None:
    if any(_is_there(path / name) for name in (CONFIG_FILE, CHECKPOINTS, METRICS_FILE)):
        require_unlocked(path)
        raise RunError(
            f"{path} already holds a run; continue it with `surefoot resume {path}`, or choose another directory"
        )


def _is_there(path: Path) -> bool:
    """Whether the name is taken, be it by a link to nowhere."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def require_no_run(path: Path) -> None:
    """Raise if a run directory is given where a saved agent is wanted."""
    if (path / CONFIG_FILE).is_file() and (path / CHECKPOINTS).is_dir():
        steps = CheckpointStore(path / CHECKPOINTS).steps()
        newest = CheckpointStore(path / CHECKPOINTS).path_of(steps[-1]) if steps else path / CHECKPOINTS
        raise RunError(
            f"{path} is a run directory, not a saved agent; load one of its checkpoints, for example {newest}"
        )


def _write_config(path: Path, text: str) -> None:
    put_file((path / CONFIG_FILE).absolute(), text.encode(), SYSTEM)


def _store(path: Path, config: Config) -> CheckpointStore:
    keep_last = config.run.keep_checkpoints if config.run.checkpoint_every else 1
    return CheckpointStore(path / CHECKPOINTS, keep_last=keep_last)
