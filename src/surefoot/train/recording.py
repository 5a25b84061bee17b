"""Demonstration sets made by an agent."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.algo.demonstration_files import MAX_BYTES
from surefoot.algo.demonstrations import save_demonstrations
from surefoot.errors import ConfigError
from surefoot.evaluate.episodes import require_counts
from surefoot.evaluate.recording import record_episodes
from surefoot.spaces import Array
from surefoot.train.evaluation import acting

if TYPE_CHECKING:
    from surefoot.train.ppo import PPO


def record(agent: PPO, path: Path, n_episodes: int, seed: int = 0, deterministic: bool = True) -> dict[str, Array]:
    """Play whole episodes and write them as demonstrations; what was written."""
    if path.suffix != ".npz":
        raise ConfigError(f"demonstrations are written as .npz, not as {path.name!r}")
    require_counts(n_episodes, seed)
    try:
        path.open("xb").close()  # before anything is played, which may take long
    except FileExistsError:
        raise ConfigError(f"{path} exists already: choose another name, nothing is overwritten") from None
    except FileNotFoundError:
        raise ConfigError(f"there is no directory {path.parent}") from None
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    try:
        with closing(agent.evaluations.single(1)) as envs:
            act = acting(agent.learner, 1, seed, deterministic)
            normalizes = agent.learner.observations is not None
            arrays = record_episodes(envs, act, agent.learner.actor.masks, n_episodes, seed, normalizes, MAX_BYTES)
        _save(path, arrays)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return arrays


def _save(path: Path, arrays: dict[str, Array]) -> None:
    try:
        save_demonstrations(path, arrays)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
