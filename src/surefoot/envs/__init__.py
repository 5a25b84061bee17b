"""Toy worlds with a known optimum, and a broken one."""

from surefoot.envs.bandit import Bandit
from surefoot.envs.broken import Broken
from surefoot.envs.continuous_target import ContinuousTarget
from surefoot.envs.corridor import Corridor
from surefoot.envs.costly_arm import CostlyArm
from surefoot.envs.crash_portfolio import CrashPortfolio
from surefoot.envs.dead_heads import check_dead_heads
from surefoot.envs.greenhouse import Greenhouse
from surefoot.envs.identity import Identity, IdentityBinary, IdentityMulti
from surefoot.envs.last_action_pays import LastActionPays
from surefoot.envs.recall import Recall
from surefoot.envs.registration import ENTRY_POINTS, register_envs
from surefoot.envs.safe_or_risky import SafeOrRisky
from surefoot.envs.t_maze import TMaze
from surefoot.envs.toy import ToyEnv
from surefoot.envs.windy_cliff import WindyCliff

__all__ = [
    "ENTRY_POINTS",
    "Bandit",
    "Broken",
    "ContinuousTarget",
    "Corridor",
    "CostlyArm",
    "CrashPortfolio",
    "Greenhouse",
    "Identity",
    "IdentityBinary",
    "IdentityMulti",
    "LastActionPays",
    "Recall",
    "SafeOrRisky",
    "TMaze",
    "ToyEnv",
    "WindyCliff",
    "check_dead_heads",
    "register_envs",
]
