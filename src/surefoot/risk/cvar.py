"""CVaR as part of the objective or as a constraint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from surefoot.config import RiskConfig
from surefoot.math.risk import mean_cvar
from surefoot.math.tail import lagrangian_advantages
from surefoot.risk.multiplier import Multiplier
from surefoot.risk.reachability import Reachability
from surefoot.risk.recent import relative
from surefoot.risk.shortfall import Shortfall
from surefoot.risk.term import RiskTerm, Steps, Unit


class CvarTerm(RiskTerm):
    """What objective and constraint have in common: the shortfall, and that nothing is open but in the collector."""

    def __init__(self, alpha: float, shortfall: Shortfall) -> None:
        self.alpha, self._shortfall = alpha, shortfall
        self.auxiliary, self.context_discount = shortfall.auxiliary, shortfall.context_discount

    def signal(self, steps: Steps) -> Tensor:
        return self._shortfall.signal(steps)

    def advance(self) -> None:
        self._shortfall.advance()

    @property
    def unit(self) -> Unit | None:
        return self._shortfall.unit

    def is_open_for(self, n_envs: int) -> bool:
        return True

    def forget_open(self, n_envs: int) -> None:
        pass


class CvarObjective(CvarTerm):
    """Maximises (1 − w)·mean + w·CVaR_α of the episode return, w = ``cvar_weight``.

    The mean is the discounted one that PPO maximises anyway, CVaR that of the plain sum of an episode's rewards.
    """

    def __init__(self, alpha: float, shortfall: Shortfall, cvar_weight: float) -> None:
        super().__init__(alpha, shortfall)
        self._weight = cvar_weight

    @property
    def summary(self) -> str:
        return (
            f"the policy learns {1 - self._weight:g}·A_return + {self._weight:g}·A_shortfall of the worst "
            f"{self.alpha:g} of episodes; a shortfall_critic is learned beside the critic"
        )

    def observe(self, steps: Steps, multiplier_lr: float) -> dict[str, float]:
        del multiplier_lr
        estimate = self._shortfall.observe(steps)
        return {} if estimate is None else estimate.metrics

    def adjust(self, advantages: Tensor, auxiliary: Tensor) -> Tensor:
        return mean_cvar(advantages, auxiliary, self._weight)

    def state_dict(self) -> dict[str, Any]:
        return {"shortfall": self._shortfall.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._shortfall.load_state_dict(state["shortfall"])


class CvarConstraint(CvarTerm):
    """Maximises the mean return subject to CVaR_α ≥ limit: A = (A_r + λ·A_cvar)/(1 + λ).

    CVaR is of what the limit is about: the plain or discounted sum of an episode, or the reward of one step. λ moves
    with the violation limit − CVaR before the policy does, and stays while no episode ends. The violation is in
    standard deviations of those values, so that the unit of the reward is of no consequence.
    """

    def __init__(self, alpha: float, shortfall: Shortfall, limit: float, config: RiskConfig) -> None:
        super().__init__(alpha, shortfall)
        self._limit = limit
        self._multiplier = Multiplier(config)
        self._reachability = Reachability(f"CVaR_{alpha:g} ≥ {limit:g}")

    @property
    def summary(self) -> str:
        unit = "steps" if self.context_discount is None else "episodes"
        return (
            f"the policy learns (A_return + λ·A_shortfall)/(1 + λ) so that the CVaR of the worst {self.alpha:g} of "
            f"{unit} stays above {self._limit:g}; a shortfall_critic is learned beside the critic"
        )

    def observe(self, steps: Steps, multiplier_lr: float) -> dict[str, float]:
        estimate = self._shortfall.observe(steps)
        if estimate is None:
            return self._multiplier.metrics()
        violation = relative(self._limit - estimate.cvar, estimate.std)
        self._multiplier.update(violation, multiplier_lr)
        metrics = {"risk/violation": self._limit - estimate.cvar, "risk/std": estimate.std}
        metrics |= self._reachability.update(violation, self._multiplier.value)
        return estimate.metrics | metrics | self._multiplier.metrics()

    def adjust(self, advantages: Tensor, auxiliary: Tensor) -> Tensor:
        return lagrangian_advantages(advantages, auxiliary, self._multiplier.value)

    def state_dict(self) -> dict[str, Any]:
        return {
            "shortfall": self._shortfall.state_dict(),
            "multiplier": self._multiplier.state_dict(),
            "reachability": self._reachability.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._shortfall.load_state_dict(state["shortfall"])
        self._multiplier.load_state_dict(state["multiplier"])
        self._reachability.load_state_dict(state["reachability"])
