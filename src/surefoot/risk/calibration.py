"""Whether the critic's tail is that of the returns (R05)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from surefoot.critics.base import Critic
from surefoot.risk.episode_sums import EpisodeSums
from surefoot.risk.shortfall import quiet_cvar, quietly, sample_size
from surefoot.risk.term import Steps

MAX_STARTS = 512
"""So many starting states of a rollout tell enough about their mixture."""


class Calibration:
    """Compares the CVaR that the critic predicts for an episode about to start with that of the episodes' returns.

    Where an episode starts is part of what happens: the predicted CVaR is that of the mixture over the starting states
    of a rollout, not the mean of their own CVaRs. Both are of the discounted raw return, whatever a limit is about. The
    critic's prediction goes on beyond a truncated step, the episode's return does not; so nothing is compared while
    truncated episodes are in the sample.
    """

    def __init__(self, n_envs: int, alpha: float, gamma: float) -> None:
        self._alpha, size = alpha, sample_size(alpha)
        self._returns, self._cuts = EpisodeSums(n_envs, gamma, size), EpisodeSums(n_envs, 1.0, size)

    def update(self, steps: Steps, critic: Critic, prediction: Tensor, reward_scale: float) -> dict[str, float]:
        """Take in a rollout and what the critic predicted of it [T, N, K]; metrics by log key."""
        returns = self._returns.update(steps.reward, steps)
        cuts = self._cuts.update((steps.truncated & ~steps.terminated).float(), steps)
        first = steps.start & steps.valid
        if not len(returns) or not bool(first.any()) or bool(cuts.any()):
            return {}
        with quietly():
            predicted = reward_scale * float(critic.mixture_risk(prediction[first][-MAX_STARTS:], self._alpha))
        empirical = quiet_cvar(returns, self._alpha)
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
