"""Play episodes and keep what was seen and done, as a demonstration set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from surefoot.errors import ConfigError
from surefoot.evaluate.episodes import Act, Seen
from surefoot.spaces import Array, row_of
from surefoot.vector.group import EnvGroup

MasksOf = Callable[[Mapping[str, Array], Array | None], Array | None]
"""From an observation and what the envs say of legal actions, to the masks [N, M] that the policy uses."""


def record_episodes(envs: EnvGroup, act: Act, masks_of: MasksOf, n_episodes: int, seed: int) -> dict[str, Array]:
    """Episode i starts from seed + i, in the first of the envs. The arrays of `algo/demonstrations.py`."""
    if n_episodes < 1:
        raise ConfigError(f"the number of episodes must be at least 1, got {n_episodes}")
    columns: dict[str, list[Any]] = {}

    def keep(**values: Any) -> None:
        for name, value in values.items():
            columns.setdefault(name, []).append(value)

    only = EnvGroup(envs.envs[:1])
    steps, reward = 0, 0.0
    for episode in range(n_episodes):
        observation, done, is_first = only.reset_one(0, seed + episode), False, True
        while not done:
            masks = only.action_masks()
            start = np.array([is_first])
            action = row_of(act(Seen(observation, masks, np.zeros(1, np.int64), start, steps, np.array([reward]))), 0)
            if isinstance(action, Mapping | tuple):
                kind = type(action).__name__
                raise ConfigError(
                    f"demonstrations have Discrete, MultiDiscrete or Box actions, not a {kind} of actions"
                )
            seen = {f"observation/{name}": array[0].copy() for name, array in observation.items()}
            keep(**seen, action=np.array(action), episode_start=is_first)
            legal = masks_of(observation, masks)
            if legal is not None:
                keep(mask=np.array(legal[0]).reshape(-1))
            reward, terminated, truncated, _ = only.step_one(0, action)
            keep(reward=float(reward))
            done, is_first = terminated or truncated, False
            steps += 1
    return {name: np.stack([np.asarray(x) for x in values]) for name, values in columns.items()}
