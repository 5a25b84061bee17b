"""A rollout in preallocated [T, N] storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from surefoot.dists.interface import Family
from surefoot.rollout.episodes import Episode
from surefoot.spaces import Array, Layout


@dataclass
class Rollout:
    """T steps of N environments, as the policy saw them.

    ``observation`` has T + 1 rows: the last is what the policy would act upon next. It is the true successor of the
    last step unless that step ended an episode; true successors of truncated steps are in ``final``.
    """

    observation: dict[str, Tensor]
    """[T + 1, N, ...] by leaf, normalised."""
    action: Tensor
    """[T, N, ...] as stored by the distribution."""
    log_prob: Tensor
    """[T, N] at the time of acting."""
    parameters: Tensor
    """[T, N, P] of the acting distribution."""
    reward: Tensor
    """[T, N] raw."""
    cost: Tensor
    """[T, N] raw ``info["cost"]``; 0 where the env gives none."""
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    """[T, N] bool; False rows are no transitions (A03)."""
    first_step: int = 0
    """Vector steps taken before this rollout; for naming steps in messages."""
    ended: list[tuple[int, Episode]] = field(default_factory=list)
    """(t of the last step, episode) of the episodes that ended here, in order; they may have begun in earlier rollouts."""
    final: list[tuple[int, int, Mapping[str, Array]]] = field(default_factory=list)
    """(t, env, normalised true successor) of truncated steps."""

    @classmethod
    def allocate(cls, n_steps: int, n_envs: int, layout: Layout, family: Family, n_parameters: int) -> Rollout:
        """Zeroed storage."""
        lead = (n_steps, n_envs)
        return cls(
            {name: torch.from_numpy(array) for name, array in layout.empty(n_steps + 1, n_envs).items()},
            torch.zeros(*lead, *family.action_shape, dtype=family.action_dtype),
            torch.zeros(lead),
            torch.zeros(*lead, n_parameters),
            torch.zeros(lead),
            torch.zeros(lead),
            torch.zeros(lead, dtype=torch.bool),
            torch.zeros(lead, dtype=torch.bool),
            torch.zeros(lead, dtype=torch.bool),
        )

    @property
    def n_steps(self) -> int:
        """T."""
        return self.log_prob.shape[0]

    @property
    def n_envs(self) -> int:
        """N."""
        return self.log_prob.shape[1]

    @property
    def done(self) -> Tensor:
        """[T, N] bool: the step ended an episode."""
        return self.terminated | self.truncated

    def final_batch(self) -> dict[str, Tensor]:
        """True successors of the truncated steps, [F, ...] by leaf, in the order of ``final``."""
        return {
            name: torch.from_numpy(np.stack([successor[name] for _, _, successor in self.final]))
            for name in self.observation
        }
