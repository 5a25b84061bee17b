"""One choice between a sure thing and a gamble that pays more on average (R02)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.return_distribution import ReturnDistribution
from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]

SAFE, RISKY = 0, 1


class SafeOrRisky(ToyEnv[Array, np.int64]):
    """Action 0 pays ``safe``; action 1 pays ``win``, or with probability p = ``crash_probability`` ``loss``.

    A policy is one number, the share x of risky choices. The mean return rises with x, so risk-neutral is x = 1. The
    worst outcome has probability x·p, and as long as the tail holds it and safe outcomes only,

        CVaR_α(x) = safe − (safe − loss)·x·p/α

    CVaR is convex in x (mixing two distributions never makes a tail better than the mix of the tails), so that the best
    policy with CVaR_α ≥ limit is x = 1 if that is feasible, or else the x at which this line meets the limit: a mixed
    policy, which no deterministic one equals. It moves with α and with the limit.
    """

    def __init__(
        self, safe: float = 1.0, win: float = 10.0, loss: float = -4.0, crash_probability: float = 0.4
    ) -> None:
        risky = ReturnDistribution({win: 1.0 - crash_probability, loss: crash_probability})
        if not loss < safe < risky.mean:
            raise ValueError(
                f"the gamble must pay more on average, and less at worst, than the safe {safe}: {risky.mean}"
            )
        self._safe, self._win, self._loss, self._p = safe, win, loss, crash_probability
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.optimal_return = risky.mean
        self.random_return = 0.5 * (safe + risky.mean)

    def return_distribution(self, share: float) -> ReturnDistribution:
        """Of the return, if a share of the choices is risky."""
        return ReturnDistribution(
            {self._safe: 1.0 - share, self._win: share * (1.0 - self._p), self._loss: share * self._p}
        )

    def best_share(self, alpha: float, limit: float) -> float:
        """The share of risky choices with the highest mean return among those with CVaR_α ≥ limit."""
        if limit > self._safe:
            raise ValueError(f"no policy has a CVaR of {limit}: the safe choice pays {self._safe}")
        if self.return_distribution(1.0).cvar(alpha) >= limit:
            return 1.0
        share = (self._safe - limit) * alpha / ((self._safe - self._loss) * self._p)
        if alpha - share * self._p <= 1.0 - share:
            return share
        # The tail also holds wins: loss·xp + safe·(1 − x) + win·(α − xp − (1 − x)) = α·limit.
        slope = self._loss * self._p - self._safe + self._win * (1.0 - self._p)
        return (alpha * limit - self._safe - self._win * (alpha - 1.0)) / slope

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        crashes = self.np_random.random() < self._p
        gamble = self._loss if crashes else self._win
        return np.zeros(1, np.float32), self._safe if action == SAFE else gamble, True, False, {}
