"""A limit on the mean cost of an episode."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from surefoot.config import RiskConfig
from surefoot.critics.auxiliary import Auxiliary
from surefoot.errors import RiskError, SurefootWarning
from surefoot.math.tail import lagrangian_advantages
from surefoot.risk.episode_sums import EpisodeSums
from surefoot.risk.multiplier import Multiplier
from surefoot.risk.reachability import Reachability
from surefoot.risk.recent import relative
from surefoot.risk.saved import count
from surefoot.risk.term import RiskTerm, Steps

COST_EPISODES = 20
"""The mean cost is that of the rollout's episodes, or of so many of the newest if these are fewer."""


class CostConstraint(RiskTerm):
    """Maximises the mean return subject to E[episode cost] ≤ limit: A = (A_r − λ·A_c)/(1 + λ).

    A_c is the advantage of a critic of its own for the costs. The episode cost is the plain sum for
    ``limit_per_episode``, Σ γ^t·c_t for ``limit_discounted``. λ is reward per cost; it moves with the violation in
    standard deviations of the episode cost, by those of the return per that of the cost, so that neither unit is of
    consequence. Source: PPO-Lagrangian of Ray, Achiam, Amodei 2019, "Benchmarking safe exploration in deep
    reinforcement learning".
    """

    needs_costs = True

    def __init__(self, config: RiskConfig, n_envs: int, gamma: float, limit: float, discount: float) -> None:
        self.auxiliary = Auxiliary("cost", gamma)
        self._limit = limit
        self._costs, self._returns = (EpisodeSums(n_envs, discount, COST_EPISODES) for _ in range(2))
        self._multiplier = Multiplier(config)
        self._reachability = Reachability(f"mean cost ≤ {limit:g}")
        self._max_steps = config.max_steps_without_episode
        self._without_end, self._said = 0, False
        """Rollouts in a row in which no episode ended."""

    @property
    def summary(self) -> str:
        return (
            f"the policy learns (A_return − λ·A_cost)/(1 + λ) so that the mean cost of an episode stays below "
            f"{self._limit:g}; a cost_critic is learned beside the critic"
        )

    def observe(self, steps: Steps, multiplier_lr: float) -> dict[str, float]:
        sample, _ = self._costs.update(steps.cost, steps), self._returns.update(steps.reward, steps)
        if not bool(steps.done.any()):
            self._without_end += 1
            self._require_end(self._without_end * steps.reward.shape[0])
            self._warn_without_episode()
            return {"risk/rollouts_without_episode": float(self._without_end)} | self._multiplier.metrics()
        self._without_end = 0
        cost, std = float(sample.mean()), self._costs.recent.std
        violation = relative(cost - self._limit, std)
        self._multiplier.update(self._returns.recent.std / std * violation, multiplier_lr)
        metrics = {"risk/cost": cost, "risk/violation": cost - self._limit, "risk/std": std}
        metrics |= self._reachability.update(violation, self._multiplier.value * std / self._returns.recent.std)
        return metrics | self._multiplier.metrics()

    def signal(self, steps: Steps) -> Tensor:
        return -steps.cost

    def adjust(self, advantages: Tensor, auxiliary: Tensor) -> Tensor:
        return lagrangian_advantages(advantages, auxiliary, self._multiplier.value)

    def advance(self) -> None:
        pass

    def is_open_for(self, n_envs: int) -> bool:
        return self._costs.is_open_for(n_envs) and self._returns.is_open_for(n_envs)

    def forget_open(self, n_envs: int) -> None:
        self._costs.forget_open(n_envs)
        self._returns.forget_open(n_envs)

    def state_dict(self) -> dict[str, Any]:
        return {
            "costs": self._costs.state_dict(),
            "returns": self._returns.state_dict(),
            "multiplier": self._multiplier.state_dict(),
            "reachability": self._reachability.state_dict(),
            "without_end": self._without_end,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._costs.load_state_dict(state["costs"])
        self._returns.load_state_dict(state["returns"])
        self._multiplier.load_state_dict(state["multiplier"])
        self._reachability.load_state_dict(state["reachability"])
        self._without_end = count(state["without_end"])

    def _require_end(self, n_steps: int) -> None:
        if n_steps >= self._max_steps:
            raise RiskError(
                f"no episode ended in {n_steps} steps of any env, so that the mean cost of an episode cannot be known "
                "and nothing limits it. Let the env end its episodes (gymnasium's TimeLimit), or limit the rewards of "
                'single steps, costs subtracted: risk.limit_per_step with risk.kind = "cvar_constraint". For very '
                "long episodes raise risk.max_steps_without_episode"
            )

    def _warn_without_episode(self) -> None:
        if not self._said:
            self._said = True
            warnings.warn(
                "no episode ended in this rollout, so the mean cost of an episode cannot be estimated anew: the "
                "multiplier stays (counted as risk/rollouts_without_episode). Raise ppo.n_steps so that episodes end "
                "within a rollout",
                SurefootWarning,
                stacklevel=2,
            )
