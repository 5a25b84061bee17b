"""The directory of a run: configuration, metrics, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.algo.learner import Learner
from surefoot.config import Config, config_hash, from_dict, from_toml, to_toml
from surefoot.errors import RunError
from surefoot.store import CheckpointStore, Found, Snapshot
from surefoot.store.files import SYSTEM
from surefoot.store.swap import put_file
from surefoot.train.checkpoint import to_snapshot, versions
from surefoot.train.sinks import METRICS_FILE, Sink, open_sinks, require_extras

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
    sinks: list[Sink]
    pending: dict[str, float] = field(default_factory=dict)
    """Metrics since the last line that was written."""

    @classmethod
    def create(cls, path: Path, config: Config) -> Run:
        """A new run; a directory that already holds one is refused."""
        if (path / CONFIG_FILE).exists() or (path / CHECKPOINTS).exists() or (path / METRICS_FILE).exists():
            raise RunError(
                f"{path} already holds a run; continue it with `surefoot resume {path}`, or choose another directory"
            )
        require_extras(config.run.sinks)
        text = to_toml(config)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write the run directory {path}: {error.strerror}") from error
        _write_config(path, text)
        return cls(path, config, _store(path, config), open_sinks(path, config.run.sinks))

    @classmethod
    def reopen(cls, path: Path, config: Config, timesteps: int, extra: Mapping[str, Any] | None = None) -> Run:
        """Continue at ``timesteps`` env steps: metrics beyond them are dropped, they will be written again.

        ``extra`` is what the checkpoint holds besides the learner.
        """
        require_extras(config.run.sinks)
        _write_config(path, to_toml(config))
        pending = dict((extra or {}).get("pending", {}))
        return cls(path, config, _store(path, config), open_sinks(path, config.run.sinks, timesteps), pending)

    @classmethod
    def restart(cls, path: Path, config: Config) -> Run:
        """Start again in the directory of a run; its old checkpoints are moved aside, its metrics dropped."""
        require_extras(config.run.sinks)
        put_aside(path / CHECKPOINTS)
        return cls.reopen(path, config, 0)

    def capture(self, learner: Learner, callbacks: Mapping[str, Any]) -> Captured:
        """A copy, in memory, of the learner and the callbacks."""
        state = learner.state()
        extra = {"callbacks": dict(callbacks), "pending": dict(self.pending)}
        snapshot = to_snapshot(state, self.config, learner.envs, extra)
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

    def note(self, metrics: Mapping[str, float]) -> None:
        """Add metrics to the next line."""
        self.pending |= {k: v if isinstance(v, int) else float(v) for k, v in metrics.items()}

    def write_line(self, step: int) -> None:
        """One line to every sink, with all metrics since the last."""
        for sink in self.sinks:
            sink.write(step, self.pending)
        self.pending = {}

    @property
    def how_to_go_on(self) -> str:
        """What to do to continue the run."""
        if self.config.env:
            return f"go on with `surefoot resume {self.path}`"
        return f"go on with PPO.load('{self.path / CHECKPOINTS}/…', env=…)"

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


def flat_settings(config: Config) -> dict[str, Any]:
    """All settings by dotted name, as JSON holds them."""
    found: dict[str, Any] = {}
    for name, value in config.model_dump(mode="json").items():
        section = isinstance(value, dict) and name != "env_kwargs"
        found |= {f"{name}.{key}": part for key, part in value.items()} if section else {name: value}
    return found


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
    """Raise if there is no run in the directory."""
    if not path.is_dir():
        raise RunError(f"there is no run directory {path}")
    if not (path / CONFIG_FILE).is_file():
        raise RunError(f"{path} holds no run: {CONFIG_FILE} is missing")


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
