"""Play whole episodes with fixed seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import ConfigError
from surefoot.rollout.group import EnvGroup
from surefoot.rollout.guard import Guard, read_success
from surefoot.spaces import Array

Act = Callable[[Mapping[str, Array], Array], Any]
"""Observation leaves [N, ...] and which envs are at the start of an episode [N] -> env actions [N, ...]."""


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted raw returns and lengths of each episode, in the order of their seeds."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    successes: tuple[bool, ...] = ()
    """``info["is_success"]`` of the last steps, if every episode gave it."""

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns over episodes."""
        return float(np.std(self.returns))

    def summary(self) -> dict[str, float]:
        """For logs and JSON."""
        found = {
            "mean_reward": self.mean,
            "std_reward": self.std,
            "min_reward": min(self.returns),
            "max_reward": max(self.returns),
            "mean_ep_length": float(np.mean(self.lengths)),
            "episodes": len(self.returns),
        }
        return found | ({"success_rate": float(np.mean(self.successes))} if self.successes else {})


def play(envs: EnvGroup, act: Act, n_episodes: int, seed: int, normalizes: bool = False) -> Evaluation:
    """Episode i starts from seed + i, so that the result does not depend on the number of envs.

    ``normalizes``: ``act`` normalises what it sees, so that it takes what float32 cannot hold.
    """
    if n_episodes < 1:
        raise ConfigError(f"n_episodes must be at least 1, got {n_episodes}")
    if seed < 0:
        raise ConfigError(f"seed must be at least 0, got {seed}")
    n = envs.n_envs
    playing = list(range(n))
    total, length = np.zeros(n), np.zeros(n, np.int64)
    returns, lengths = [0.0] * n_episodes, [0] * n_episodes
    successes: dict[int, bool] = {}
    started, finished = n, 0
    observation = envs.reset_each([seed + i for i in range(n)])
    fresh = np.ones(n, np.bool_)
    guard, steps = Guard(normalizes), 0
    while finished < n_episodes:
        guard.observations(observation, steps)
        step = envs.step(act(observation, fresh))
        guard.check(step.reward, "reward", steps)
        steps += 1
        fresh = step.terminated | step.truncated
        observation = step.observation
        total += step.reward
        length += 1
        for i in step.final:
            episode = playing[i]
            if episode < n_episodes:
                returns[episode], lengths[episode] = float(total[i]), int(length[i])
                success = read_success(step.infos[i], i, steps - 1)
                if success is not None:
                    successes[episode] = success
                finished += 1
            playing[i] = started
            started += 1
            total[i] = length[i] = 0
            observation = envs.reset_one(i, seed + playing[i])
    complete = len(successes) == n_episodes
    return Evaluation(
        tuple(returns), tuple(lengths), tuple(successes[i] for i in range(n_episodes)) if complete else ()
    )
