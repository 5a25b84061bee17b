"""Play episodes and keep what was seen and done, as a demonstration set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from surefoot.errors import ConfigError
from surefoot.evaluate.episodes import Act, Seen
from surefoot.spaces import Array, row_of
from surefoot.vector.group import EnvGroup
from surefoot.vector.guard import Guard

MasksOf = Callable[[Mapping[str, Array], Array | None], Array | None]
"""From an observation and what the envs say of legal actions, to the masks [N, M] that the policy uses."""


def record_episodes(
    envs: EnvGroup, act: Act, masks_of: MasksOf, n_episodes: int, seed: int, normalizes: bool, max_bytes: int
) -> dict[str, Array]:
    """Episode i starts from seed + i, in the first of the envs. The arrays of `algo/demonstrations.py`.

    ``normalizes`` as in `play`; more than ``max_bytes`` are not recorded, since nobody would read them.
    """
    columns: dict[str, list[Any]] = {}

    def keep(**values: Any) -> None:
        for name, value in values.items():
            columns.setdefault(name, []).append(np.asarray(value))

    only, guard, first = EnvGroup(envs.envs[:1]), Guard(normalizes), np.zeros(1, np.int64)
    steps, reward = 0, 0.0
    for episode in range(n_episodes):
        observation, done, is_first = only.reset_one(0, seed + episode), False, True
        while not done:
            masks = only.action_masks()
            start = np.array([is_first])
            guard.observations(observation, steps, first)
            action = row_of(act(Seen(observation, masks, first, start, steps, np.array([reward]))), 0)
            if isinstance(action, Mapping | tuple):
                kind = type(action).__name__
                raise ConfigError(
                    f"demonstrations have Discrete, MultiDiscrete, MultiBinary or Box actions, not a {kind} of them"
                )
            seen = {f"observation/{name}": array[0].copy() for name, array in observation.items()}
            keep(**seen, action=np.array(action), episode_start=is_first)
            legal = masks_of(observation, masks)
            if legal is not None:
                keep(mask=np.array(legal[0]).reshape(-1))
            reward, terminated, truncated, _ = only.step_one(0, action)
            guard.check(np.array([reward]), "reward", steps, first)
            keep(reward=float(reward))
            done, is_first = terminated or truncated, False
            steps += 1
            if steps * sum(values[-1].nbytes for values in columns.values()) > max_bytes:
                raise ConfigError(
                    f"{steps} steps make more than {max_bytes:,} bytes: record fewer than {n_episodes} episodes"
                )
    return {name: np.stack(values) for name, values in columns.items()}
