"""Demonstration sets made by an agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from surefoot.algo.demonstrations import save_demonstrations
from surefoot.errors import ConfigError
from surefoot.evaluate.episodes import Seen
from surefoot.evaluate.recording import record_episodes
from surefoot.spaces import Array

if TYPE_CHECKING:
    from surefoot.train.ppo import PPO


def record(agent: PPO, path: Path, n_episodes: int, seed: int = 0, deterministic: bool = True) -> dict[str, Array]:
    """Play whole episodes and write them as demonstrations; what was written."""
    if path.suffix != ".npz":
        raise ConfigError(f"demonstrations are written as .npz, not as {path.name!r}")
    if path.exists():
        raise ConfigError(f"{path} exists already: choose another name, nothing is overwritten")
    if not path.parent.is_dir():
        raise ConfigError(f"there is no directory {path.parent}")
    actor, sampler = agent.learner.actor, torch.Generator(agent.learner.device).manual_seed(seed)
    size = agent.learner.policy.state_size
    state = np.zeros((1, size), np.float32) if size else None

    def act(seen: Seen) -> Any:
        nonlocal state
        acted = actor(seen.observation, state, seen.start, seen.masks, sampler, deterministic, seen.step, seen.rows)
        state = acted.state
        return acted.action

    arrays = record_episodes(agent.evaluation_envs(), act, actor.masks, n_episodes, seed)
    save_demonstrations(path, arrays)
    return arrays
