"""A limit on the mean cost of an episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.config import RiskConfig
from surefoot.math.tail_gradient import lagrangian_advantages
from surefoot.risk.cvar import limit_and_discount
from surefoot.risk.ledger import Ledger
from surefoot.risk.multiplier import Multiplier
from surefoot.risk.term import Estimated, RiskTerm, Shaped, Steps
from surefoot.risk.waiting import Waiting

COST_EPISODES = 20
"""The mean cost is that of the rollout's episodes, or of so many of the newest if these are fewer."""


class CostConstraint(RiskTerm):
    """Maximises the mean return subject to E[episode cost] ≤ limit: A = (A_r − λ·A_c)/(1 + λ).

    A_c is the advantage of a critic of its own for the costs. The episode cost is the plain sum for
    ``limit_per_episode``, Σ γ^t·c_t for ``limit_discounted``. λ is reward per cost; it moves with the violation in
    spreads of the episode cost, by spreads of the return per spread of the cost, so that neither unit matters. Source:
    PPO-Lagrangian of Ray, Achiam, Amodei 2019, "Benchmarking safe exploration in deep reinforcement learning".
    """

    def __init__(self, config: RiskConfig, n_envs: int, gamma: float) -> None:
        self._limit, discount = limit_and_discount(config, gamma)
        self._costs, self._returns = (Ledger(n_envs, discount, COST_EPISODES) for _ in range(2))
        self._multiplier = Multiplier(config)
        self._waiting = Waiting("the mean cost of an episode")

    def __call__(self, steps: Steps, estimated: Estimated, multiplier_lr: float) -> Shaped:
        assert estimated.cost_advantages is not None, "a cost constraint comes with a cost critic"
        entry, _ = self._costs.enter(steps.cost, steps), self._returns.enter(steps.reward, steps)
        waits = self._waiting.see(int(steps.done.sum()))
        metrics = {"risk/waiting": float(self._waiting.count)}
        if not waits:
            cost = float(entry.sample.mean())
            spread, worth = self._costs.spread, self._returns.spread / self._costs.spread
            metrics |= {"risk/cost": cost, "risk/violation": cost - self._limit, "risk/spread": spread}
            self._multiplier.update(worth * (cost - self._limit) / spread, multiplier_lr)
        harmless = -estimated.cost_advantages / estimated.reward_scale
        shaped = lagrangian_advantages(estimated.advantages, harmless, self._multiplier.value)
        return Shaped(shaped, metrics | self._multiplier.metrics())

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
            "waiting": self._waiting.count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._costs.load_state_dict(state["costs"])
        self._returns.load_state_dict(state["returns"])
        self._multiplier.load_state_dict(state["multiplier"])
        self._waiting.count = int(state["waiting"])
