"""The one interface behind which every kind of environment stands.

Gymnasium's vector envs reset themselves in three different ways; a list of single envs, or worker processes, in a
fourth. Behind `Envs` a step is always a true transition: ``final`` holds the true successor of finished rows, and rows
that only carried a reset are marked invalid (A01, A03).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from surefoot.actions.heads import HeadSpec
from surefoot.actions.masks import MaskForm
from surefoot.spaces import Array, Layout
from surefoot.vector.infos import Flags, Infos

NOTHING_DROPPED: Flags = np.zeros((), np.bool_)


class Successors(Mapping[int, Mapping[str, Array]]):
    """True successors of finished rows by env index; kept as columns, so that thousands cost no more than one."""

    def __init__(self, envs: NDArray[np.int64], leaves: Mapping[str, Array]) -> None:
        """Observations [F, ...] by leaf, of the envs [F] in ascending order."""
        self.envs, self.leaves = envs, leaves

    @classmethod
    def stacked(cls, rows: Sequence[tuple[int, Mapping[str, Array]]]) -> Successors:
        """From (env, leaves) of each."""
        if not rows:
            return NO_SUCCESSORS
        first = rows[0][1]
        return cls(np.array([i for i, _ in rows]), {name: np.stack([row[name] for _, row in rows]) for name in first})

    def __getitem__(self, env: int) -> Mapping[str, Array]:
        places = np.flatnonzero(self.envs == env)
        if not places.size:
            raise KeyError(env)
        return {name: rows[places[0]] for name, rows in self.leaves.items()}

    def __iter__(self) -> Iterator[int]:
        return iter(self.envs.tolist())

    def __len__(self) -> int:
        return len(self.envs)


NO_SUCCESSORS = Successors(np.zeros(0, np.int64), {})


class Step(NamedTuple):
    """What one step of N environments gave."""

    observation: Mapping[str, Array]
    """What to act on next, [N, ...] by leaf."""
    reward: NDArray[np.float64]
    """[N]; 0 in invalid rows."""
    terminated: Flags
    truncated: Flags
    """[N]; both False in invalid rows. Both may be True: terminated wins."""
    valid: Flags
    """[N]; False where the row carried a reset and was no transition."""
    active: Flags
    """[N]; False where the *next* row will carry a reset, so that its observation is not acted upon."""
    final: Successors
    """True successor of each finished row, by env index."""
    infos: Infos
    """The info of each env's transition; empty in invalid rows."""
    dropped: Flags = NOTHING_DROPPED
    """[N], or one False for all; True where the env's open episode was lost and a new one began: the row is invalid,
    and what the env gave since the start of the lost episode is no data."""


class Envs(ABC):
    """N environments stepped together."""

    kind: str = "single envs"
    """What `state_dict` is of, in words: only envs of one kind can take it."""
    n_envs: int
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    layout: Layout
    action_heads: tuple[HeadSpec, ...] | None = None
    """How the parts of an action depend on each other, if the env declares it."""

    @cached_property
    def mask_form(self) -> MaskForm:
        """What masks of legal actions look like."""
        return MaskForm.of(self.action_space, self.action_heads)

    def observation_columns(self) -> tuple[str, ...]:
        """Names of the numbers of an observation that is one array, if the env is at hand and declares them."""
        return ()

    @abstractmethod
    def reset(self, seed: int) -> Mapping[str, Array]:
        """Seed and start every env; first observations [N, ...] by leaf."""

    @abstractmethod
    def step(self, actions: Any) -> Step:
        """Take env actions [N, ...]: an array, or for a Dict or Tuple space one of arrays."""

    @property
    def n_restarts(self) -> int:
        """Envs that failed and were made anew."""
        return 0

    @property
    def gives_masks(self) -> bool:
        """Whether `action_masks` says which actions are legal; known once the envs are started."""
        return False

    def action_masks(self) -> Array | None:
        """Legal actions [N, M] (True = legal) for the observation last given, in `mask_form`; None if not given.

        What stands in the rows of envs that will only carry a reset means nothing.
        """
        return None

    @abstractmethod
    def state_dict(self) -> list[Any] | None:
        """A copy of open episodes and random streams, as JSON; None if an env cannot say them.

        Raises `EnvStateError` if an env says what cannot be kept.
        """

    @abstractmethod
    def load_state_dict(self, state: list[Any]) -> None:
        """Go on with the open episodes of `state_dict`; replaces `reset`."""

    @abstractmethod
    def close(self) -> None:
        """Release what the envs hold. Safe to call twice."""


def env_seeds(seed: int, n: int) -> list[int]:
    """Seeds of n environments, distinct across envs and across nearby root seeds."""
    return [int(s) for s in np.random.SeedSequence([seed, 0x5EED]).generate_state(n, np.uint32) & 0x7FFFFFFF]
