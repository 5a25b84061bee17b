"""A rollout in preallocated [T, N] storage."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefoot.actions.distribution import Family
from surefoot.rollout.episode_statistics import Episode
from surefoot.spaces import Array, Layout


class Final(NamedTuple):
    """The true successor of a truncated step: its normalized observation, and the memory state to see it with."""

    t: int
    env: int
    observation: Mapping[str, Array]
    state: Tensor


@dataclass
class Rollout:
    """T steps of N environments, as the policy saw them.

    ``observation`` has T + 1 rows: the last is what the policy would act upon next. It is the true successor of the
    last step unless that step ended an episode; true successors of truncated steps are in ``final``. ``state`` has the
    memory states before each row alike (width 0 without memory).
    """

    observation: dict[str, Tensor]
    """[T + 1, N, ...] by leaf, normalized."""
    state: Tensor
    """[T + 1, N, n], before the step (M01)."""
    hidden: Tensor
    """[T, N, H] what the critic's memory gave out at each step (width 0 without memory)."""
    start: Tensor
    """[T, N] bool: the step is the first of an episode, its state is the initial one (M02)."""
    action: Tensor
    """[T, N, ...] as stored by the distribution."""
    mask: Tensor | None
    """[T, N, M] bool, True where legal; None if the env gives no masks."""
    log_prob: Tensor
    """[T, N] at the time of acting."""
    head_log_prob: Tensor | None
    """[T, N, A] the same by head, 0 where a head was inactive; None if the action has no heads."""
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
    mask_digest: bytes = b""
    """`digest` of the masks once all actions were drawn."""
    first_step: int = 0
    """Vector steps taken before this rollout; for naming steps in messages."""
    ended: list[tuple[int, Episode]] = field(default_factory=list)
    """(t of the last step, episode) of the episodes that ended here, in order; they may have begun in earlier ones."""
    final: list[Final] = field(default_factory=list)
    """Of the truncated steps, in order."""

    @classmethod
    def allocate(
        cls, n_steps: int, n_envs: int, layout: Layout, family: Family, n_parameters: int, sizes: tuple[int, int]
    ) -> Rollout:
        """Zeroed storage for states and what a memory gives out of these ``sizes``; room for masks is made once the
        envs have shown their form."""
        state_size, hidden_size = sizes

        def flags() -> Tensor:
            return torch.zeros(n_steps, n_envs, dtype=torch.bool)

        return cls(
            observation={name: torch.from_numpy(x) for name, x in layout.empty(n_steps + 1, n_envs).items()},
            state=torch.zeros(n_steps + 1, n_envs, state_size),
            hidden=torch.zeros(n_steps, n_envs, hidden_size),
            start=flags(),
            action=torch.zeros(n_steps, n_envs, *family.action_shape, dtype=family.action_dtype),
            mask=None,
            log_prob=torch.zeros(n_steps, n_envs),
            head_log_prob=torch.zeros(n_steps, n_envs, len(family.head_names)) if family.head_names else None,
            parameters=torch.zeros(n_steps, n_envs, n_parameters),
            reward=torch.zeros(n_steps, n_envs),
            cost=torch.zeros(n_steps, n_envs),
            terminated=flags(),
            truncated=flags(),
            valid=flags(),
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

    def final_batch(self) -> tuple[dict[str, Tensor], Tensor]:
        """True successors of the truncated steps: observations [F, ...] by leaf, and states [F, n]."""
        observation = {
            name: torch.from_numpy(np.stack([final.observation[name] for final in self.final])).to(rows.dtype)
            for name, rows in self.observation.items()
        }
        return observation, torch.stack([final.state for final in self.final])


def digest(mask: Tensor) -> bytes:
    """Equal for equal masks, and another for any other."""
    return hashlib.blake2b(mask.numpy().tobytes(), digest_size=16).digest()
