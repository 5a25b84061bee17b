"""From settings to a risk term."""

from __future__ import annotations

import warnings

from surefoot.config import Config, RiskConfig
from surefoot.errors import SurefootWarning
from surefoot.risk.cost import CostConstraint
from surefoot.risk.cvar import CvarConstraint, CvarObjective
from surefoot.risk.term import RiskTerm


def build_risk(config: RiskConfig, n_envs: int, gamma: float) -> RiskTerm | None:
    """The term of the configured kind, or None for kind none."""
    if config.kind == "cvar_objective":
        return CvarObjective(config, n_envs, gamma)
    if config.kind == "cvar_constraint":
        return CvarConstraint(config, n_envs, gamma)
    if config.kind == "cost_constraint":
        return CostConstraint(config, n_envs, gamma)
    return None


def warn_if_thin(config: Config) -> None:
    """Warn if the critic's quantiles do not resolve the tail; its CVaR is still defined."""
    if config.risk.kind not in ("cvar_objective", "cvar_constraint") or config.critic.kind != "quantile":
        return
    alpha, n = config.risk.alpha, config.critic.n_quantiles
    if alpha * n < 1.0:
        warnings.warn(
            f"risk.alpha = {alpha:g} of critic.n_quantiles = {n} is less than one quantile: the critic's CVaR is a "
            "guess (the constraint and the objective rest on episodes and are not affected); raise one of them",
            SurefootWarning,
            stacklevel=4,
        )
