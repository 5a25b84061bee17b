"""What whole episodes brought, and which of them an estimate rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from surefoot.math.episodes import OpenSums, sum_episodes
from surefoot.math.moments import Moments, merge
from surefoot.risk.term import Steps


class Entry(NamedTuple):
    """What one rollout added to a ledger."""

    totals: Tensor
    """[T, N] float64, sum of each step's episode so far; where the episode ends, all of it."""
    sample: Tensor
    """[n] the episodes that an estimate should rest on, the newest last; empty before any has ended."""


class Ledger:
    """(Discounted) sums over episodes, of a reward or a cost.

    An estimate rests on all episodes that ended in the rollout at hand, and if these are fewer than ``size`` on so many
    of the newest: those of this rollout belong to the policy that is being improved, older ones are the second choice.
    """

    def __init__(self, n_envs: int, gamma: float, size: int) -> None:
        self._gamma, self._size = gamma, size
        self._open = OpenSums.empty(n_envs)
        self._recent = torch.zeros(0, dtype=torch.float64)
        self._moments = Moments.empty(())

    def enter(self, x: Tensor, steps: Steps) -> Entry:
        """Add a rollout's x [T, N]."""
        totals, self._open = sum_episodes(x, steps.start, steps.valid, self._gamma, self._open)
        ended = totals[steps.done]
        sample = torch.cat([self._recent, ended])[-max(self._size, len(ended)) :]
        self._recent = sample[-self._size :]
        self._moments = merge(self._moments, Moments.from_batch(ended))
        return Entry(totals, sample)

    @property
    def spread(self) -> float:
        """Standard deviation of all episodes so far; their size if they do not vary, 1 if there is none."""
        std, size = float(self._moments.std), abs(float(self._moments.mean))
        return std if std > 1e-4 * size else size or 1.0

    def is_open_for(self, n_envs: int) -> bool:
        """Whether what is open is of so many envs."""
        return self._open.total.shape == self._open.length.shape == (n_envs,)

    def forget_open(self, n_envs: int) -> None:
        """All envs, now so many, start new episodes."""
        self._open = OpenSums.empty(n_envs)

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        moments = self._moments
        return {
            "total": self._open.total.tolist(),
            "length": self._open.length.tolist(),
            "recent": self._recent.tolist(),
            "moments": [float(moments.count), float(moments.mean), float(moments.m2)],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        total, length, self._recent, moments = (
            torch.tensor(state[name], dtype=torch.float64) for name in ("total", "length", "recent", "moments")
        )
        self._open = OpenSums(total, length)
        self._moments = Moments(*moments.unbind())
