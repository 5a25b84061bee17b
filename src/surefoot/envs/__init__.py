"""Toy worlds with a known optimum, and a broken one."""

from surefoot.envs.bandit import Bandit
from surefoot.envs.broken import Broken
from surefoot.envs.continuous_target import ContinuousTarget
from surefoot.envs.corridor import Corridor
from surefoot.envs.costly_arm import CostlyArm
from surefoot.envs.crash_portfolio import CrashPortfolio
from surefoot.envs.identity import Identity, IdentityBinary, IdentityMulti
from surefoot.envs.last_action_pays import LastActionPays
from surefoot.envs.registration import ENTRY_POINTS, register_envs
from surefoot.envs.safe_or_risky import SafeOrRisky
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
    "Identity",
    "IdentityBinary",
    "IdentityMulti",
    "LastActionPays",
    "SafeOrRisky",
    "ToyEnv",
    "WindyCliff",
    "register_envs",
]
