"""A rollout in preallocated [T, N] storage."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.actions.distribution import Family
from surefoot.rollout.episode_statistics import Episodes
from surefoot.spaces import Array, Layout


@dataclass(frozen=True)
class Finals:
    """The true successors of truncated steps, in order: their normalized observations, and the memory states to see
    them with."""

    t: NDArray[np.int64]
    env: NDArray[np.int64]
    """[F] which steps."""
    observation: Mapping[str, Array]
    """[F, ...] by leaf."""
    state: Array
    """[F, n]"""

    @classmethod
    def joined(cls, parts: Sequence[Finals]) -> Finals:
        """One after the other."""
        if not parts:
            return NO_FINALS
        names = parts[0].observation
        return cls(
            np.concatenate([part.t for part in parts]),
            np.concatenate([part.env for part in parts]),
            {name: np.concatenate([part.observation[name] for part in parts]) for name in names},
            np.concatenate([part.state for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.t)


NO_FINALS = Finals(np.zeros(0, np.int64), np.zeros(0, np.int64), {}, np.zeros((0, 0), np.float32))


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
    running: Tensor
    """[T, N] float64, return of the episode before the step, as `EpisodeContext` counts it; 0 without one."""
    weight: Tensor
    """[T, N] float64, what a reward counts in that return; 1 without one."""
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    """[T, N] bool; False rows are no transitions (A03)."""
    mask_digest: bytes = b""
    """`digest` of the masks once all actions were drawn."""
    first_step: int = 0
    """Vector steps taken before this rollout; for naming steps in messages."""
    ended: list[tuple[int, Episodes]] = field(default_factory=list)
    """(t of the last step, episodes) for each step in which some ended, in order; they may have begun in earlier
    rollouts."""
    final: Finals = NO_FINALS
    """Of the truncated steps."""

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
            running=torch.zeros(n_steps, n_envs, dtype=torch.float64),
            weight=torch.ones(n_steps, n_envs, dtype=torch.float64),
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
            name: torch.from_numpy(self.final.observation[name]).to(rows.dtype)
            for name, rows in self.observation.items()
        }
        return observation, torch.from_numpy(self.final.state)


def digest(mask: Tensor) -> bytes:
    """Equal for equal masks, and another for any other."""
    return hashlib.blake2b(mask.numpy().tobytes(), digest_size=16).digest()
