"""CVaR of the episode return, as part of the objective or as a constraint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.config import RiskConfig
from surefoot.math.risk import mean_cvar
from surefoot.math.tail_gradient import lagrangian_advantages
from surefoot.risk.calibration import Calibration
from surefoot.risk.multiplier import Multiplier
from surefoot.risk.tail import TailReader, sample_size
from surefoot.risk.term import Estimated, RiskTerm, Shaped, Steps


class CvarObjective(RiskTerm):
    """Maximises (1 − w)·mean + w·CVaR_α of the discounted return, w = ``cvar_weight``.

    Both are of one quantity: the return that PPO maximises anyway, with its discount.
    """

    def __init__(self, config: RiskConfig, n_envs: int, gamma: float) -> None:
        self.alpha = config.alpha
        self._weight = config.cvar_weight
        self._tail = TailReader(n_envs, config.alpha, gamma)
        self._calibration = Calibration(n_envs, config.alpha, gamma, sample_size(config.alpha))

    def __call__(self, steps: Steps, estimated: Estimated, multiplier_lr: float) -> Shaped:
        del multiplier_lr
        reading = self._tail.read(steps)
        risky = reading.advantages / estimated.reward_scale
        metrics = reading.metrics
        if estimated.predicted_cvar is not None:
            metrics |= self._calibration.read(steps, estimated.predicted_cvar)
        return Shaped(mean_cvar(estimated.advantages, risky, self._weight), metrics)

    def is_open_for(self, n_envs: int) -> bool:
        return self._tail.is_open_for(n_envs) and self._calibration.is_open_for(n_envs)

    def forget_open(self, n_envs: int) -> None:
        self._tail.forget_open(n_envs)
        self._calibration.forget_open(n_envs)

    def state_dict(self) -> dict[str, Any]:
        return {"tail": self._tail.state_dict(), "calibration": self._calibration.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._tail.load_state_dict(state["tail"])
        self._calibration.load_state_dict(state["calibration"])


class CvarConstraint(RiskTerm):
    """Maximises the mean return subject to CVaR_α(episode return) ≥ limit: A = (A_r + λ·A_cvar)/(1 + λ).

    The episode return is the plain sum of rewards for ``limit_per_episode``, Σ γ^t·r_t for ``limit_discounted``. λ
    moves with the violation limit − CVaR before the policy does, and waits while no episode ends. The violation is
    measured in spreads (standard deviations of the episode return), so that the unit of the reward does not matter.
    """

    def __init__(self, config: RiskConfig, n_envs: int, gamma: float) -> None:
        self.alpha = config.alpha
        self._limit, discount = limit_and_discount(config, gamma)
        self._tail = TailReader(n_envs, config.alpha, discount)
        self._calibration = Calibration(n_envs, config.alpha, gamma, sample_size(config.alpha))
        self._multiplier = Multiplier(config)

    def __call__(self, steps: Steps, estimated: Estimated, multiplier_lr: float) -> Shaped:
        reading = self._tail.read(steps)
        metrics = reading.metrics
        if reading.cvar is not None:
            violation = self._limit - reading.cvar
            metrics |= {"risk/violation": violation, "risk/spread": reading.spread}
            self._multiplier.update(violation / reading.spread, multiplier_lr)
        if estimated.predicted_cvar is not None:
            metrics |= self._calibration.read(steps, estimated.predicted_cvar)
        risky = reading.advantages / estimated.reward_scale
        shaped = lagrangian_advantages(estimated.advantages, risky, self._multiplier.value)
        return Shaped(shaped, metrics | self._multiplier.metrics())

    def is_open_for(self, n_envs: int) -> bool:
        return self._tail.is_open_for(n_envs) and self._calibration.is_open_for(n_envs)

    def forget_open(self, n_envs: int) -> None:
        self._tail.forget_open(n_envs)
        self._calibration.forget_open(n_envs)

    def state_dict(self) -> dict[str, Any]:
        return {
            "tail": self._tail.state_dict(),
            "calibration": self._calibration.state_dict(),
            "multiplier": self._multiplier.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._tail.load_state_dict(state["tail"])
        self._calibration.load_state_dict(state["calibration"])
        self._multiplier.load_state_dict(state["multiplier"])


def limit_and_discount(config: RiskConfig, gamma: float) -> tuple[float, float]:
    """The limit, and the discount of the episode sum that it is about."""
    if config.limit_per_episode is not None:
        return config.limit_per_episode, 1.0
    assert config.limit_discounted is not None, "the configuration requires one of the two"
    return config.limit_discounted, gamma
