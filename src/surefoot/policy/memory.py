"""What a memory between encoder and output layers is: features over whole sequences in, in one call.

The state of a memory is one row of numbers per env, so that it is stored, reset and saved like any other tensor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class SequenceBatch:
    """How the B rows of a minibatch lie in S sequences, one after the other."""

    length: Tensor
    """[S] rows of each sequence, on the host; a sequence may have none."""
    first: Tensor
    """[S] which of the states each starts from, on the host."""
    states: Tensor
    """[M, n] memory states."""

    @classmethod
    def single(cls, states: Tensor) -> SequenceBatch:
        """One row for each of these states."""
        count = states.shape[0]
        return cls(torch.ones(count, dtype=torch.int64), torch.arange(count), states)

    @cached_property
    def start(self) -> Tensor:
        """[S, n] memory state before the first step of each."""
        return self.states.index_select(0, self.first.to(self.states.device))

    def sequence_of(self, n_rows: int) -> Tensor:
        """[n_rows] which sequence each row belongs to; S for rows that only pad a minibatch."""
        found = torch.searchsorted(self.length.cumsum(0), torch.arange(n_rows, device=self.length.device), right=True)
        return found.to(self.states.device)

    @cached_property
    def padded(self) -> tuple[Tensor, Tensor]:
        """The row at each place [S, L] of sequences that are padded to equal length (with row 0), and the flat
        place s·L + l of each row [B]."""
        time = torch.arange(int(self.length.max()))
        real = time < self.length.unsqueeze(1)
        first = self.length.cumsum(0) - self.length
        place = torch.where(real, first.unsqueeze(1) + time, 0)
        return place.to(self.start.device), real.flatten().nonzero().squeeze(1).to(self.start.device)


class Memory(nn.Module, ABC):
    """Features over time -> features that remember."""

    state_size: int
    """Numbers of state per env."""
    hidden: slice
    """Which of these are given out, to be finished."""
    n_outputs: int

    @abstractmethod
    def finish(self, hidden: Tensor) -> Tensor:
        """What is given out, [..., n] -> outputs [..., H]."""

    @abstractmethod
    def sequences(self, features: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Features [S, L, F] from states [S, n] -> outputs [S, L, H] and the states after the last step [S, n]."""

    def step(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of N envs: features [N, F], state [N, n] -> output [N, H], new state [N, n]."""
        outputs, after = self.sequences(features.unsqueeze(1), state)
        return outputs.squeeze(1), after

    def rows(self, features: Tensor, sequences: SequenceBatch, own: slice) -> Tensor:
        """Rows [B, F] that belong to sequences -> rows [B, H]; ``own`` says which columns of the states are its own."""
        place, row = sequences.padded
        outputs, _ = self.sequences(features[place], sequences.start[:, own])
        return outputs.flatten(0, 1)[row]
