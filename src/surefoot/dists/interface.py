"""The contract of action distributions: `Family` is the recipe for a space, `Distribution` a bound batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import UnsupportedSpaceError


class Distribution(ABC):
    """A batch of B action distributions bound to their parameters.

    Nothing here checks its arguments: these methods run once per environment step and once per minibatch.
    Log-probability, entropy and divergence have shape [B], summed over the action's dimensions once (P06).
    """

    @abstractmethod
    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Stored actions [B, *action_shape], drawn from `generator` (on the parameters' device)."""

    @abstractmethod
    def mode(self) -> Tensor:
        """The most likely stored action [B, *action_shape]."""

    @abstractmethod
    def log_prob(self, action: Tensor) -> Tensor:
        """ln p(action) [B] of stored actions [B, *action_shape]; for a Box, the density of the env action."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy in nats [B], of the same variable as `log_prob`."""

    @abstractmethod
    def kl(self, new: Self) -> Tensor:
        """Exact KL(self ‖ new) [B]."""


class Family(ABC):
    """How a policy network speaks to one action space: width of its output, binding, and the env's format.

    The *stored* action is what the rollout keeps and `log_prob` takes; `to_env` turns it into the env's.
    """

    n_outputs: int
    """Outputs that the policy network must give."""
    free: Tensor | None
    """Initial values [F] of the parameters that do not depend on the state, or None."""
    action_shape: tuple[int, ...]
    """Shape of one stored action."""
    action_dtype: torch.dtype
    """Dtype of stored actions."""
    mask_width: int
    """Entries of one action's mask; 0 when the family takes none."""

    @abstractmethod
    def bind(self, params: Tensor, mask: Tensor | None = None) -> Distribution:
        """Distributions for `params` [B, n_outputs + F]; the caller has appended the free parameters.

        `mask` [B, mask_width] is True where an action is legal; every row (every sub-action) has a legal one.
        """

    def mask_groups(self) -> dict[str, slice]:
        """The columns of a mask that belong together, by head: one of each group must be legal."""
        return {"": slice(0, self.mask_width)} if self.mask_width else {}

    @abstractmethod
    def to_env(self, action: Tensor) -> np.ndarray[Any, Any]:
        """Stored actions [N, *action_shape] as env actions [N, *space.shape] in the space's dtype."""


def refuse_mask(family: Family, mask: Tensor | None) -> None:
    """Raise if a mask was given to a family that would ignore it (P12)."""
    if mask is not None:
        raise UnsupportedSpaceError(
            f"{type(family).__name__} takes no action mask. Masks are for Discrete and MultiDiscrete action "
            "spaces; drop the mask, or express the choice as one of these."
        )
