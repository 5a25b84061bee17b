"""Selling an option and hedging it: dynamics, the environment, classical strategies.

Importing this registers `surefoot/Hedging-v0`. Strategies, their evaluation and the report are in modules of their own,
which need torch; the environment does not.
"""

from surefoot.hedging.dynamics import BinomialTree, BlackScholes, Dynamics, Heston
from surefoot.hedging.env import Hedging, HedgingVector
from surefoot.hedging.registration import HEDGING, register_envs

__all__ = [
    "HEDGING",
    "BinomialTree",
    "BlackScholes",
    "Dynamics",
    "Hedging",
    "HedgingVector",
    "Heston",
    "register_envs",
]

register_envs()
