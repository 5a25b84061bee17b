"""Sums over whole episodes, of which a rollout may hold only the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from surefoot.math.episodes import OpenSums, sum_episodes
from surefoot.risk.recent import RecentValues
from surefoot.risk.saved import numbers
from surefoot.risk.term import Steps


class EpisodeSums:
    """(Discounted) sums over episodes, of a reward or a cost."""

    def __init__(self, n_envs: int, gamma: float, size: int) -> None:
        self._gamma = gamma
        self._open = OpenSums.empty(n_envs)
        self.recent = RecentValues(size)

    def update(self, x: Tensor, steps: Steps) -> Tensor:
        """Add a rollout's x [T, N]; the sample that an estimate rests on, empty before any episode has ended."""
        totals, self._open = sum_episodes(x, steps.start, steps.valid, self._gamma, self._open)
        return self.recent.update(totals[steps.done])

    def is_open_for(self, n_envs: int) -> bool:
        """Whether what is open is of so many envs."""
        return self._open.total.shape == self._open.length.shape == (n_envs,)

    def forget_open(self, n_envs: int) -> None:
        """All envs, now so many, start new episodes."""
        self._open = OpenSums.empty(n_envs)

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "total": self._open.total.tolist(),
            "length": self._open.length.tolist(),
            "recent": self.recent.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        self._open = OpenSums(*(numbers(state[name]) for name in ("total", "length")))
        self.recent.load_state_dict(state["recent"])
