"""The worlds of `benchmarks/risk_limits.py`, each without a limit and with two, and the exact answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from surefoot.spaces import Array
from surefoot.worlds import CostlyArm, CrashPortfolio, SafeOrRisky, WindyCliff
from surefoot.worlds.windy_cliff import FORWARD

COMMON: dict[str, Any] = {
    "gamma": 1.0,
    "n_epochs": 8,
    "learning_rate": "linear(3e-3, 0)",
    "policy": {"hidden_sizes": (16,)},
    "compile": False,
}
"""Settings of every run. Those of the multiplier are the defaults."""


@dataclass(frozen=True)
class World:
    """A world, how it is trained, and what its answers are."""

    title: str
    env: str
    quantity: str
    """What is limited."""
    trait: str
    """What tells one policy from another, in words."""
    measure: Callable[[Array], Array]
    """The trait of each first action [N, ...] of an episode."""
    best_return: Callable[[float | None], float]
    """Highest mean return under a limit (None: without)."""
    best_trait: Callable[[float | None], float | None]
    """Its trait, where that is known."""
    risk: dict[str, Any]
    """Settings of a constrained run but for the limit."""
    limits: tuple[float, float]
    """A loose and a tight one; the policy that is best under one is not under the other."""
    settings: dict[str, Any]
    updates: int

    @property
    def alpha(self) -> float | None:
        """Level of the CVaR that is limited; None if it is the mean cost."""
        found: float | None = self.risk.get("alpha")
        return found

    def all_settings(self, limit: float | None) -> dict[str, Any]:
        """Of `PPO(...)`, but for the seed."""
        found = COMMON | self.settings
        found["batch_size"] = found["n_envs"] * found["n_steps"]
        return found if limit is None else found | {"risk": self.risk | {"limit_per_episode": limit}}

    def timesteps(self) -> int:
        """Env steps of one run."""
        return int(self.updates * self.settings["n_envs"] * self.settings["n_steps"])


def _arm() -> World:
    world, alpha = SafeOrRisky(), 0.4

    def share(limit: float | None) -> float:
        return 1.0 if limit is None else world.best_share(alpha, limit)

    return World(
        title="safe or risky arm",
        env="surefoot/SafeOrRisky-v0",
        quantity="CVaR of the worst 0.4",
        trait="share of risky choices",
        measure=lambda actions: actions.astype(float),
        best_return=lambda limit: world.return_distribution(share(limit)).mean,
        best_trait=share,
        risk={"kind": "cvar_constraint", "alpha": alpha},
        limits=(-3.0, 0.9),
        settings={"n_envs": 128, "n_steps": 16},
        updates=200,
    )


def _portfolio() -> World:
    world, alpha = CrashPortfolio(), 0.1

    def weight(limit: float | None) -> float:
        return 1.0 if limit is None else world.best_weight(alpha, limit)

    return World(
        title="crash-prone portfolio",
        env="surefoot/CrashPortfolio-v0",
        quantity="CVaR of the worst 0.1",
        trait="weight of the risky asset",
        measure=lambda actions: actions[:, 0].astype(float),
        best_return=lambda limit: world.return_distribution(weight(limit)).mean,
        best_trait=weight,
        risk={"kind": "cvar_constraint", "alpha": alpha},
        limits=(-3.0, -0.5),
        # One episode in a hundred has three crashes: many rollouts with few steps on each keep them from deciding
        # where the policy comes to rest.
        settings={"n_envs": 512, "n_steps": 12, "n_epochs": 2, "policy": {"hidden_sizes": (16,), "log_std_init": -1.3}},
        updates=400,
    )


def _cliff() -> World:
    world, alpha = WindyCliff(), 0.1

    @cache
    def best(limit: float | None) -> float:
        return world.optimal_return if limit is None else world.best_return(alpha, limit)

    return World(
        title="windy cliff",
        env="surefoot/WindyCliff-v0",
        quantity="CVaR of the worst 0.1",
        trait="share of walks along the edge",
        measure=lambda actions: (actions == FORWARD).astype(float),
        best_return=best,
        best_trait=lambda limit: 1.0 if limit is None else None,
        risk={"kind": "cvar_constraint", "alpha": alpha},
        limits=(-9.0, -7.0),
        # Hurrying along the edge has a better tail than strolling about, and inland a better one still: without some
        # exploration the agent stops at the first.
        settings={"n_envs": 64, "n_steps": 48, "ent_coef": "linear(0.05, 0)"},
        updates=160,
    )


def _costly() -> World:
    world = CostlyArm()

    def share(limit: float | None) -> float:
        return 1.0 if limit is None else world.best_share(limit)

    return World(
        title="costly arm",
        env="surefoot/CostlyArm-v0",
        quantity="mean cost of an episode",
        trait="share of fast first choices",
        measure=lambda actions: actions.astype(float),
        best_return=lambda limit: float(np.interp(share(limit), (0.0, 1.0), (4.0, world.optimal_return))),
        best_trait=lambda limit: 1.0 if limit is None else None,
        risk={"kind": "cost_constraint"},
        limits=(1.5, 0.4),
        settings={"n_envs": 128, "n_steps": 16},
        updates=200,
    )


WORLDS: dict[str, Callable[[], World]] = {
    "arm": _arm,
    "portfolio": _portfolio,
    "cliff": _cliff,
    "costly": _costly,
}
