"""The Gymnasium id of the hedging worlds; `gymnasium.make_vec` steps all envs at once."""

from __future__ import annotations

import gymnasium

HEDGING = "surefoot/Hedging-v0"


def register_envs() -> None:
    """Make the id known to Gymnasium; calling it again does nothing."""
    if HEDGING not in gymnasium.registry:
        gymnasium.register(
            HEDGING,
            entry_point="surefoot.hedging.env:Hedging",
            vector_entry_point="surefoot.hedging.env:HedgingVector",
        )
