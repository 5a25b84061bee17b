"""Play whole episodes in envs that step together."""

from __future__ import annotations

import numpy as np

from surefoot.errors import EnvError
from surefoot.evaluate.episodes import Act, Evaluation, Seen, require_counts
from surefoot.spaces import Array
from surefoot.vector.guard import UNTOLD, Guard, read_successes
from surefoot.vector.interface import Envs


def play_together(envs: Envs, act: Act, n_episodes: int, seed: int, normalizes: bool = False) -> Evaluation:
    """One seed starts all N envs, and each plays its own share of the episodes: n_episodes / N, the first ones one more
    where that leaves a rest. So the result depends on the number of envs.

    An env that is done with its share is stepped on with the others, and what it gives then is not counted. To count
    episodes as they end, whoever plays them, would prefer short ones. The k-th episode of env i is at k·N + i.
    """
    require_counts(n_episodes, seed)
    n = envs.n_envs
    every = np.arange(n)
    share = n_episodes // n + (every < n_episodes % n)
    played, total, length = np.zeros(n, np.int64), np.zeros(n), np.zeros(n, np.int64)
    returns, lengths = np.zeros(n_episodes), np.zeros(n_episodes, np.int64)
    successes = np.full(n_episodes, UNTOLD, np.int8)
    observation, guard = envs.reset(seed), Guard(normalizes)
    start, active = np.ones(n, np.bool_), np.ones(n, np.bool_)
    steps, left, reward = 0, n_episodes, np.zeros(n)
    guard.observations(observation, steps)
    while left:
        step = envs.step(act(Seen(observation, _masks(envs, active), every, start, steps, reward)))
        guard.check(step.reward, "reward", steps)
        guard.observations(step.observation, steps)
        if step.dropped.any():
            raise EnvError(f"env {int(np.argmax(step.dropped))} lost its episode in step {steps} of an evaluation")
        total += step.reward
        length += step.valid
        if step.final:
            ended = step.final.envs
            counted = ended[played[ended] < share[ended]]
            places = played[counted] * n + counted
            returns[places], lengths[places] = total[counted], length[counted]
            successes[places] = read_successes(step.infos, counted, steps)
            played[counted] += 1
            left -= len(counted)
            total[ended] = length[ended] = 0
        start = step.terminated | step.truncated | ~step.valid
        observation, active, reward = step.observation, step.active, step.reward
        steps += 1
    told = (successes == 1).tolist() if (successes != UNTOLD).all() else ()
    return Evaluation(tuple(returns.tolist()), tuple(lengths.tolist()), tuple(told))


def _masks(envs: Envs, active: Array) -> Array | None:
    """Legal actions [N, M]; where only a reset follows there is nothing to choose."""
    masks = envs.action_masks()
    return masks if masks is None or active.all() else masks | ~active[:, None]
