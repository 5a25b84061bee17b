"""From settings to a risk term: the registry of kinds."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from surefoot.config import Config, RiskConfig, accept_names_of
from surefoot.errors import RiskError, SurefootWarning
from surefoot.risk.calibration import Calibration
from surefoot.risk.cost import CostConstraint
from surefoot.risk.cvar import CvarConstraint, CvarObjective
from surefoot.risk.shortfall import EpisodeShortfall, Shortfall, StepShortfall
from surefoot.risk.term import RiskTerm
from surefoot.vector.episode_context import n_context_columns


def _cvar_objective(config: RiskConfig, n_envs: int, gamma: float) -> RiskTerm:
    del n_envs, gamma
    return CvarObjective(config.alpha, _of_episodes(config, 1.0), config.cvar_weight)


def _cvar_constraint(config: RiskConfig, n_envs: int, gamma: float) -> RiskTerm:
    del n_envs
    shortfall: Shortfall
    if config.limit_per_step is not None:
        shortfall, limit = StepShortfall(config.alpha, gamma), config.limit_per_step
    else:
        limit, discount = limit_and_discount(config, gamma)
        shortfall = _of_episodes(config, discount)
    return CvarConstraint(config.alpha, shortfall, limit, config)


def _cost_constraint(config: RiskConfig, n_envs: int, gamma: float) -> RiskTerm:
    limit, discount = limit_and_discount(config, gamma)
    return CostConstraint(config, n_envs, gamma, limit, discount)


KINDS: dict[str, Callable[[RiskConfig, int, float], RiskTerm]] = {
    "cvar_objective": _cvar_objective,
    "cvar_constraint": _cvar_constraint,
    "cost_constraint": _cost_constraint,
}
"""By the name that ``risk.kind`` has: made from the settings, the number of envs, and ``ppo.gamma``."""
accept_names_of(KINDS, "risk.kind")


def build_risk(config: RiskConfig, n_envs: int, gamma: float) -> RiskTerm | None:
    """The term of the configured kind, or None for kind none."""
    return KINDS[config.kind](config, n_envs, gamma) if config.kind in KINDS else None


def build_calibration(config: Config, term: RiskTerm | None, n_envs: int) -> Calibration | None:
    """Of the critic's tail, where a term is about tails and the critic predicts them."""
    if term is None or term.alpha is None or config.critic.kind == "scalar":
        return None
    if config.critic.kind == "quantile" and term.alpha * config.critic.n_quantiles < 1.0:
        warnings.warn(
            f"risk.alpha = {term.alpha:g} of critic.n_quantiles = {config.critic.n_quantiles} is less than one "
            "quantile: the critic's CVaR (risk/cvar_predicted) is a guess. The policy is not affected, since its risk "
            "rests on what was earned; raise one of them",
            SurefootWarning,
            stacklevel=4,
        )
    return Calibration(n_envs, term.alpha, config.ppo.gamma)


def require_tail(config: RiskConfig, total_timesteps: int) -> None:
    """Raise if not one episode of a whole training can be in the tail: an episode has one step at least."""
    about_episodes = config.kind in ("cvar_objective", "cvar_constraint") and config.limit_per_step is None
    if about_episodes and config.alpha * total_timesteps < 1.0:
        raise RiskError(
            f"risk.alpha = {config.alpha:g} of the episodes of {total_timesteps} env steps is less than one: there is "
            f"no tail to learn from. Raise alpha to {min(1.0, 20 / total_timesteps):.2g} or more, or train longer"
        )


def limit_and_discount(config: RiskConfig, gamma: float) -> tuple[float, float]:
    """The limit, and the discount of the episode sum that it is about."""
    if config.limit_per_episode is not None:
        return config.limit_per_episode, 1.0
    assert config.limit_discounted is not None, "the configuration requires one of them"
    return config.limit_discounted, gamma


def _of_episodes(config: RiskConfig, discount: float) -> EpisodeShortfall:
    n_context = n_context_columns(discount)
    return EpisodeShortfall(config.alpha, discount, n_context, config.max_steps_without_episode)
