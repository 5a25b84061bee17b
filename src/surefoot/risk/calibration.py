"""Whether the critic's tail is that of the returns (R05)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from surefoot.risk.ledger import Ledger
from surefoot.risk.tail import quiet_cvar
from surefoot.risk.term import Steps


class Calibration:
    """Compares the CVaR that the critic predicts at the first steps of episodes with that of the episodes' returns.

    Both are of the discounted raw return, whatever a limit is about. The critic's prediction goes on beyond a truncated
    step, the episode's return does not; so nothing is compared while truncated episodes are in the sample.
    """

    def __init__(self, n_envs: int, alpha: float, gamma: float, size: int) -> None:
        self._alpha = alpha
        self._returns, self._cuts = Ledger(n_envs, gamma, size), Ledger(n_envs, 1.0, size)

    def read(self, steps: Steps, predicted_cvar: Tensor) -> dict[str, float]:
        """Measures by log key; predicted [T, N]."""
        returns = self._returns.enter(steps.reward, steps)
        cuts = self._cuts.enter((steps.truncated & ~steps.terminated).float(), steps)
        first = steps.start & steps.valid
        if not len(returns.sample) or not bool(first.any()) or bool(cuts.sample.any()):
            return {}
        predicted = float(predicted_cvar[first].mean())
        empirical = quiet_cvar(returns.sample, self._alpha)
        return {
            "risk/cvar_predicted": predicted,
            "risk/cvar_discounted": empirical,
            "risk/cvar_gap": predicted - empirical,
        }

    def is_open_for(self, n_envs: int) -> bool:
        """Whether what is known of open episodes is of so many envs."""
        return self._returns.is_open_for(n_envs) and self._cuts.is_open_for(n_envs)

    def forget_open(self, n_envs: int) -> None:
        """All envs, now so many, start new episodes."""
        self._returns.forget_open(n_envs)
        self._cuts.forget_open(n_envs)

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"returns": self._returns.state_dict(), "cuts": self._cuts.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        self._returns.load_state_dict(state["returns"])
        self._cuts.load_state_dict(state["cuts"])
