"""GAE as the explicit sum of discounted residuals, one entry at a time."""

from __future__ import annotations

from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def gae(
    rewards: Matrix,
    values: Matrix,
    successor_values: Matrix,
    terminated: Matrix,
    truncated: Matrix,
    valid: Matrix,
    discounts: tuple[float, float],
) -> tuple[list[list[float]], list[list[float]]]:
    gamma, lam = discounts
    n_steps, n_envs = len(rewards), len(rewards[0])
    advantages = [[0.0] * n_envs for _ in range(n_steps)]
    returns = [[0.0] * n_envs for _ in range(n_steps)]
    for n in range(n_envs):
        for t in range(n_steps):
            if not valid[t][n]:
                continue
            total, weight, k = 0.0, 1.0, t
            while k < n_steps and valid[k][n]:
                future = 0.0 if terminated[k][n] else gamma * successor_values[k][n]
                total += weight * (rewards[k][n] + future - values[k][n])
                if terminated[k][n] or truncated[k][n]:
                    break
                weight *= gamma * lam
                k += 1
            advantages[t][n] = total
            returns[t][n] = total + values[t][n]
    return advantages, returns
