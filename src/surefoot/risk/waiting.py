"""Rollouts in which no episode ended, so that nothing can be said about episodes."""

from __future__ import annotations

import warnings

from surefoot.errors import SurefootWarning


class Waiting:
    """Counts them, and says so once."""

    def __init__(self, quantity: str) -> None:
        self._quantity = quantity
        self.count = 0
        self._said = False

    def see(self, ended: int) -> bool:
        """Whether a rollout in which ``ended`` episodes ended leaves nothing but waiting."""
        if ended:
            return False
        self.count += 1
        if not self._said:
            self._said = True
            warnings.warn(
                f"no episode ended in this rollout, so {self._quantity} cannot be estimated anew: the risk term waits "
                "(counted as risk/waiting). Raise ppo.n_steps so that episodes end within a rollout",
                SurefootWarning,
                stacklevel=2,
            )
        return True
