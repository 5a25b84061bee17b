"""How much to put into an asset that gains most of the time and sometimes crashes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.worlds.return_distribution import ReturnDistribution
from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]


class CrashPortfolio(ToyEnv[Array, Array]):
    """T steps; the action is the weight w ∈ [0, 1] of the risky asset, the rest earns ``riskless``.

    The risky asset earns ``gain``, or with probability p = ``crash_probability`` ``crash``. The reward of a step is
    (1 − w)·riskless + w·X, on a constant stake, so that returns add up. Observed is the time, from −1 to 1.

    *The answer.* The return of a constant weight is T·riskless + w·S with S = Σ(X_t − riskless), a function of the
    binomial number of crashes. CVaR is positively homogeneous and moves with constants, so

        CVaR_α(w) = T·riskless + w·CVaR_α(S),    mean(w) = T·riskless + w·E[S]

    With E[S] > 0 > CVaR_α(S) risk-neutral is w = 1, and the best constant weight with CVaR_α ≥ limit is where the first
    line meets the limit. No policy that sees only the clock does better: CVaR_α(Σ w_t·(X_t − riskless)) is concave in
    the weights and does not depend on their order, so evening them out never lowers it; and a random weight has at most
    the mean of the CVaRs of its values, which is at most the CVaR of their mean. The mean return is linear in all this.
    """

    changing = ("steps",)

    def __init__(
        self,
        n_steps: int = 3,
        riskless: float = 0.1,
        gain: float = 2.0,
        crash: float = -3.0,
        crash_probability: float = 0.2,
    ) -> None:
        self._n_steps, self._riskless = n_steps, riskless
        self._gain, self._crash, self._p = gain, crash, crash_probability
        self._steps = 0
        self.action_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        if self.return_distribution(1.0).mean <= self.return_distribution(0.0).mean:
            raise ValueError("the risky asset must earn more on average than the riskless one")
        self.optimal_return = self.return_distribution(1.0).mean
        self.random_return = self.return_distribution(0.5).mean

    def return_distribution(self, weight: float) -> ReturnDistribution:
        """Of the return of a constant weight."""
        n, p, base = self._n_steps, self._p, self._n_steps * self._riskless
        gain, crash = self._gain - self._riskless, self._crash - self._riskless
        found: dict[float, float] = {}
        for crashes in range(n + 1):
            value = base + weight * (crashes * crash + (n - crashes) * gain)
            found[value] = found.get(value, 0.0) + math.comb(n, crashes) * p**crashes * (1.0 - p) ** (n - crashes)
        return ReturnDistribution(found)

    def best_weight(self, alpha: float, limit: float) -> float:
        """The constant weight with the highest mean return among those with CVaR_α ≥ limit."""
        without, fully = self.return_distribution(0.0).cvar(alpha), self.return_distribution(1.0).cvar(alpha)
        if limit > max(without, fully):
            raise ValueError(f"no weight has a CVaR of {limit}: the best is {max(without, fully)}")
        return 1.0 if fully >= limit else (without - limit) / (without - fully)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        crashes = self.np_random.random() < self._p
        weight = float(action[0])
        reward = (1.0 - weight) * self._riskless + weight * (self._crash if crashes else self._gain)
        self._steps += 1
        return self._observe(), reward, self._steps >= self._n_steps, False, {}

    def _observe(self) -> Array:
        return np.array([2.0 * self._steps / self._n_steps - 1.0], np.float32)
