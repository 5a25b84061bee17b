"""From settings to a risk term."""

from __future__ import annotations

from surefoot.config import RiskConfig
from surefoot.risk.cost import CostConstraint
from surefoot.risk.cvar import CvarConstraint, CvarObjective
from surefoot.risk.term import RiskTerm


def build_risk(config: RiskConfig, n_envs: int, gamma: float) -> RiskTerm | None:
    """The term of the configured kind, or None for kind none."""
    if config.kind == "none":
        return None
    kinds = {"cvar_objective": CvarObjective, "cvar_constraint": CvarConstraint, "cost_constraint": CostConstraint}
    return kinds[config.kind](config, n_envs, gamma)
