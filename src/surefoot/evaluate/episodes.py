"""Play whole episodes with fixed seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from surefoot.errors import ConfigError
from surefoot.spaces import Array, row_of
from surefoot.vector.group import EnvGroup
from surefoot.vector.guard import Guard, read_success


class Seen(NamedTuple):
    """What M envs show before an action."""

    observation: Mapping[str, Array]
    """[M, ...] by leaf."""
    masks: Array | None
    """[M, …] legal actions, if the envs say them."""
    rows: Array
    """[M] which envs these are."""
    start: Array
    """[M] which of them are at the start of an episode."""
    step: int
    """Vector steps so far."""
    reward: Array
    """[M] what each was paid for its last step; of no meaning at the start of an episode."""


Act = Callable[[Seen], Any]
"""-> env actions [M, ...]."""


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted raw returns and lengths of each episode: in the order of their seeds, or by turns of the envs where
    these step together."""

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


def require_counts(n_episodes: int, seed: int) -> None:
    """Raise unless so many episodes can be played from such a seed."""
    if n_episodes < 1:
        raise ConfigError(f"n_episodes must be at least 1, got {n_episodes}")
    if not 0 <= seed < 2**63:
        raise ConfigError(f"seed must be at least 0 and below 2**63, got {seed}")


def play(envs: EnvGroup, act: Act, n_episodes: int, seed: int, normalizes: bool = False) -> Evaluation:
    """Episode i starts from seed + i, so that the result does not depend on the number of envs.

    ``normalizes``: ``act`` normalizes what it sees, so that it takes what float32 cannot hold.
    """
    require_counts(n_episodes, seed)
    if n_episodes < envs.n_envs:
        envs = EnvGroup(envs.envs[:n_episodes])
    playing = list(range(envs.n_envs))
    """The episode that each env plays; an env that is not needed any more is taken out of `rows`."""
    rows = np.array(playing)
    total, length = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
    returns, lengths = [0.0] * n_episodes, [0] * n_episodes
    successes: dict[int, bool] = {}
    started, steps = len(rows), 0
    for i in playing:
        observation = envs.reset_one(i, seed + i)
    start, reward, guard = np.ones(len(rows), np.bool_), np.zeros(len(rows)), Guard(normalizes)
    while rows.size:
        seen = {name: array[rows] for name, array in observation.items()}
        guard.observations(seen, steps, rows)
        masks = envs.action_masks()
        actions = act(Seen(seen, None if masks is None else masks[rows], rows, start[rows], steps, reward[rows]))
        start[:] = False
        for place, i in enumerate(rows.tolist()):
            reward[i], terminated, truncated, info = envs.step_one(i, row_of(actions, place))
            guard.check(reward[i : i + 1], "reward", steps, np.array([i]))
            total[i] += reward[i]
            length[i] += 1
            if not (terminated or truncated):
                continue
            episode = playing[i]
            returns[episode], lengths[episode] = float(total[i]), int(length[i])
            success = read_success(info, i, steps)
            if success is not None:
                successes[episode] = success
            if started < n_episodes:
                envs.reset_one(i, seed + started)
                playing[i], start[i] = started, True
                total[i] = length[i] = 0
                started += 1
            else:
                rows = rows[rows != i]
        steps += 1
    complete = len(successes) == n_episodes
    return Evaluation(
        tuple(returns), tuple(lengths), tuple(successes[i] for i in range(n_episodes)) if complete else ()
    )
