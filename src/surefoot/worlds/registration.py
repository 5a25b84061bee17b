"""The toy worlds' Gymnasium ids."""

from __future__ import annotations

import gymnasium

OWN_NAMESPACE = "surefoot/"
ENTRY_POINTS: dict[str, str] = {
    "surefoot/Identity-v0": "surefoot.worlds.identity:Identity",
    "surefoot/IdentityMulti-v0": "surefoot.worlds.identity:IdentityMulti",
    "surefoot/IdentityBinary-v0": "surefoot.worlds.identity:IdentityBinary",
    "surefoot/Bandit-v0": "surefoot.worlds.bandit:Bandit",
    "surefoot/Corridor-v0": "surefoot.worlds.corridor:Corridor",
    "surefoot/ContinuousTarget-v0": "surefoot.worlds.continuous_target:ContinuousTarget",
    "surefoot/LastActionPays-v0": "surefoot.worlds.last_action_pays:LastActionPays",
    "surefoot/SafeOrRisky-v0": "surefoot.worlds.safe_or_risky:SafeOrRisky",
    "surefoot/CrashPortfolio-v0": "surefoot.worlds.crash_portfolio:CrashPortfolio",
    "surefoot/WindyCliff-v0": "surefoot.worlds.windy_cliff:WindyCliff",
    "surefoot/CostlyArm-v0": "surefoot.worlds.costly_arm:CostlyArm",
    "surefoot/Greenhouse-v0": "surefoot.worlds.greenhouse:Greenhouse",
    "surefoot/Recall-v0": "surefoot.worlds.recall:Recall",
    "surefoot/TMaze-v0": "surefoot.worlds.t_maze:TMaze",
}


def register_envs() -> None:
    """Make the ids known to `gymnasium.make`; calling it again does nothing."""
    for env_id, entry_point in ENTRY_POINTS.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point)
