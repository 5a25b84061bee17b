"""Toy worlds with a known optimum."""

from surefoot.worlds.bandit import Bandit
from surefoot.worlds.continuous_target import ContinuousTarget
from surefoot.worlds.corridor import Corridor
from surefoot.worlds.costly_arm import CostlyArm
from surefoot.worlds.crash_portfolio import CrashPortfolio
from surefoot.worlds.greenhouse import Greenhouse
from surefoot.worlds.identity import Identity, IdentityBinary, IdentityMulti
from surefoot.worlds.last_action_pays import LastActionPays
from surefoot.worlds.recall import Recall
from surefoot.worlds.registration import ENTRY_POINTS, register_envs
from surefoot.worlds.safe_or_risky import SafeOrRisky
from surefoot.worlds.t_maze import TMaze
from surefoot.worlds.toy import ToyEnv
from surefoot.worlds.windy_cliff import WindyCliff

__all__ = [
    "ENTRY_POINTS",
    "Bandit",
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
    "register_envs",
]
