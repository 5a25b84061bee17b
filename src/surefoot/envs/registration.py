"""The toy worlds' Gymnasium ids."""

from __future__ import annotations

import gymnasium

OWN_NAMESPACE = "surefoot/"
ENTRY_POINTS: dict[str, str] = {
    "surefoot/Identity-v0": "surefoot.envs.identity:Identity",
    "surefoot/IdentityMulti-v0": "surefoot.envs.identity:IdentityMulti",
    "surefoot/IdentityBinary-v0": "surefoot.envs.identity:IdentityBinary",
    "surefoot/Bandit-v0": "surefoot.envs.bandit:Bandit",
    "surefoot/Corridor-v0": "surefoot.envs.corridor:Corridor",
    "surefoot/ContinuousTarget-v0": "surefoot.envs.continuous_target:ContinuousTarget",
    "surefoot/LastActionPays-v0": "surefoot.envs.last_action_pays:LastActionPays",
    "surefoot/SafeOrRisky-v0": "surefoot.envs.safe_or_risky:SafeOrRisky",
    "surefoot/CrashPortfolio-v0": "surefoot.envs.crash_portfolio:CrashPortfolio",
    "surefoot/WindyCliff-v0": "surefoot.envs.windy_cliff:WindyCliff",
    "surefoot/CostlyArm-v0": "surefoot.envs.costly_arm:CostlyArm",
    "surefoot/Greenhouse-v0": "surefoot.envs.greenhouse:Greenhouse",
    "surefoot/Recall-v0": "surefoot.envs.recall:Recall",
    "surefoot/TMaze-v0": "surefoot.envs.t_maze:TMaze",
    "surefoot/Broken-v0": "surefoot.envs.broken:Broken",
}


def register_envs() -> None:
    """Make the ids known to `gymnasium.make`; calling it again does nothing."""
    for env_id, entry_point in ENTRY_POINTS.items():
        if env_id not in gymnasium.registry:
            # Gymnasium's own checker would warn about Broken before the code under test meets it.
            gymnasium.register(env_id, entry_point, disable_env_checker=env_id == "surefoot/Broken-v0")
