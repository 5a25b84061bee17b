"""Sums over episodes, one env and one step at a time."""

from __future__ import annotations

from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def sums(x: Matrix, start: Matrix, valid: Matrix, gamma: float) -> list[list[float]]:
    """For each step the discounted sum of its episode up to it; what stands in invalid rows goes on as it was."""
    found = [[0.0] * len(x[0]) for _ in x]
    for n in range(len(x[0])):
        rewards: list[float] = []
        for t in range(len(x)):
            if start[t][n]:
                rewards = []
            if valid[t][n]:
                rewards.append(x[t][n])
            found[t][n] = sum(gamma**k * reward for k, reward in enumerate(rewards))
    return found


def broadcast_to_steps(
    values: Matrix, start: Matrix, done: Matrix, valid: Matrix
) -> tuple[list[list[float]], list[list[bool]]]:
    """Walk forward from each step to the end of its episode, if that comes before the next one begins."""
    n_steps, n_envs = len(values), len(values[0])
    found = [[0.0] * n_envs for _ in range(n_steps)]
    reached = [[False] * n_envs for _ in range(n_steps)]
    for n in range(n_envs):
        for t in range(n_steps):
            k = t
            while valid[t][n] and k < n_steps and (k == t or not start[k][n]):
                if done[k][n]:
                    found[t][n], reached[t][n] = values[k][n], True
                    break
                k += 1
    return found, reached
