"""The contract of action distributions: `Family` is the recipe for a space, `Distribution` a bound batch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import UnsupportedSpaceError

Array = np.ndarray[Any, Any]


class HeadTerms(NamedTuple):
    """Of stored actions, by head, [A, B]; 0 where a head is inactive (F02)."""

    log_prob: Tensor
    """Their sum over the heads is the joint ln p."""
    entropy: Tensor
    """Of each head given the choices before it; their sum over the heads has the joint entropy as its mean."""
    expected_entropy: Tensor
    """Of each head in the mean over all choices before it, whatever was chosen: their sum over the heads is the joint
    entropy (P13). Where nobody rewards it, the entropies above."""


class PackedHeads(NamedTuple):
    """What a loss asks of the heads of stored actions, whatever the policy is now. Rows stand last: a compiled update
    computes eight of them at a time."""

    status: Tensor
    """[W, B] of each entry of each choice: whether it was legal, and whether it was chosen."""
    active: Tensor
    """[O, B] 1 where a head that is no choice among n is active, else 0."""
    log_prob: Tensor
    """[A, B] of each head, when it acted; 0 where it is inactive."""


class HeadStatistics(NamedTuple):
    """What stored actions and their masks say about the heads, whatever the policy is."""

    active: Tensor
    """[A, B] bool: whether the head is active in the action."""
    n_legal: Tensor
    """[A, B] how many legal choices the head had; 0 for a head that is no choice among n."""
    packed: PackedHeads
    action: Tensor | None = None
    """[B, *action_shape] the stored actions, if some head is no choice: what is packed does not say what it did."""
    mask: Tensor | None = None
    """[B, M] the masks, if they depend on parent actions and a joint entropy is asked for."""


class OutputUnits(NamedTuple):
    """How the outputs of a policy whose Gaussian actions were in the units of the env become those of the same policy
    in units of the box: ``(output − shift) / scale``, and ``state_independent − state_independent_shift``. float64."""

    scale: Tensor
    """[n_outputs], 1 for outputs that keep their meaning."""
    shift: Tensor
    """[n_outputs], 0 for outputs that keep their meaning."""
    state_independent_shift: Tensor
    """[F] of the state-independent parameters."""


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

    def head_log_prob(self, action: Tensor) -> Tensor:
        """ln p [B, A] of each of the family's `head_names`; a distribution without heads is one."""
        return self.log_prob(action).unsqueeze(-1)

    def heads(self, action: Tensor | None, packed: PackedHeads, joint_entropy: bool = True) -> HeadTerms:
        """The terms of each of the family's `head_names`, from `HeadStatistics.action` and `HeadStatistics.packed`,
        made with the same ``joint_entropy``: whether the expected entropies are asked for and will be differentiated.
        The distribution is bound to `HeadStatistics.mask`, or the whole mask."""
        raise NotImplementedError(f"{type(self).__name__} has no heads")


class Family(ABC):
    """How a policy network speaks to one action space: width of its output, binding, and the env's format.

    The *stored* action is what the rollout keeps and `log_prob` takes; `to_env` turns it into the env's.
    """

    n_outputs: int
    """Outputs that the policy network must give."""
    state_independent: Tensor | None = None
    """Initial values [F] of the parameters that do not depend on the state, or None."""
    action_shape: tuple[int, ...]
    """Shape of one stored action."""
    action_dtype: torch.dtype
    """Dtype of stored actions."""
    mask_width: int
    """Entries of one action's mask; 0 when the family takes none."""
    inactive_action: float = 0.0
    """Entry of the stored action of an inactive head; its log-probability has a finite gradient."""
    head_names: tuple[str, ...] = ()
    """Heads whose terms are measured one by one; empty for an action that is one whole."""
    head_outputs: tuple[slice, ...] = ()
    """The network outputs of each head."""

    @property
    def n_parameters(self) -> int:
        """Numbers in one row of what `bind` takes."""
        return self.n_outputs + (0 if self.state_independent is None else self.state_independent.numel())

    @property
    def n_logits(self) -> int:
        """How many of the outputs, from the first, are logits; 0 for a Box."""
        return self.n_outputs if self.action_dtype == torch.int64 else 0

    @property
    def max_entropy(self) -> float:
        """No distribution of the family has a larger entropy, in nats; infinity where none is known."""
        return math.inf

    @abstractmethod
    def bind(self, params: Tensor, mask: Tensor | None = None) -> Distribution:
        """Distributions for `params` [B, n_outputs + F]; the caller has appended the state-independent ones.

        `mask` [B, mask_width] is True where an action is legal; every row (every sub-action) has a legal one.
        """

    def output_units(self) -> OutputUnits:
        """How outputs for actions in the env's units become those that `bind` takes."""
        ones = torch.ones(self.n_outputs, dtype=torch.float64)
        rest = torch.zeros(self.n_parameters - self.n_outputs, dtype=torch.float64)
        return OutputUnits(ones, torch.zeros_like(ones), rest)

    def is_clipped(self, action: Tensor) -> Tensor | None:
        """Which entries [B, D] of stored actions `to_env` clips to the bounds of a Box; None if it never clips."""
        return None

    def received(self, params: Tensor) -> Tensor:
        """The `params` of `bind` with modes cut to the bounds of a Box where `to_env` would clip them: policies that
        differ only beyond a bound act alike."""
        return params

    def std(self, params: Tensor) -> Tensor | None:
        """Standard deviations [B, D] of the env action before clipping, given the `params` of `bind`; None if the
        distribution is not Gaussian in the units of the env."""
        return None

    def bound_std(self, low: float, high: float) -> bool:
        """Keep the standard deviations, in the units of the distribution, within bounds from now on; False if there are
        none to bound."""
        return False

    def head_statistics(
        self, action: Tensor, mask: Tensor | None, log_prob: Tensor, joint_entropy: bool = True
    ) -> HeadStatistics:
        """What stored actions [B, *action_shape], their masks and their log-probabilities [B, A] say about the
        `head_names`; with ``joint_entropy`` also about what could have been chosen."""
        raise NotImplementedError(f"{type(self).__name__} has no heads")

    def dead_end(self, masks: Array) -> tuple[int, str] | None:
        """The first of the masks [N, M] that leaves no legal choice, and for which head; None if all leave one."""
        empty = np.flatnonzero(~masks.any(1))
        return (int(empty[0]), "") if len(empty) else None

    @abstractmethod
    def to_env(self, action: Array) -> Any:
        """Stored actions [N, *action_shape] as env actions [N, *space.shape] in the space's dtype.

        For a Dict or Tuple space, a dict or tuple of such arrays. None of them shares memory with what is given.
        """


def refuse_mask(family: Family, mask: Tensor | None) -> None:
    """Raise if a mask was given to a family that would ignore it (P12)."""
    if mask is not None:
        raise UnsupportedSpaceError(
            f"{type(family).__name__} takes no action mask. Masks are for Discrete and MultiDiscrete action "
            "spaces; drop the mask, or express the choice as one of these."
        )
