"""What the update differentiates: minibatches of shuffled rows, or of whole sequences for a memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.actions.distribution import Family, HeadStatistics, PackedHeads
from surefoot.algo.estimate import Estimates
from surefoot.config import Config
from surefoot.policy.memory import SequenceBatch
from surefoot.rollout.buffer import Rollout
from surefoot.rollout.sequences import cut, pack


class Batch(NamedTuple):
    """B rows. ``weight`` is 1, or 0 for rows that are no transitions or only pad a minibatch."""

    observation: dict[str, Tensor]
    action: Tensor | None
    """None where `heads` says all of it."""
    mask: Tensor | None
    log_prob: Tensor
    parameters: Tensor | None
    """Of the acting distribution; None where no exact divergence asks for them."""
    advantages: Tensor
    returns: Tensor
    targets: Tensor
    """What the critic learns: [B] or [B, M]."""
    prediction: Tensor
    weight: Tensor
    row: Tensor
    """Position t·N + env in the rollout."""
    heads: PackedHeads | None = None
    """If the action has heads; rows stand last there."""
    sequences: SequenceBatch | None = None
    """How the rows lie in sequences, for a memory."""

    def rows(self, index: Tensor | slice) -> Batch:
        """Some of the rows, without their order in time; a slice gives views."""

        def chosen(x: Any) -> Any:
            if x is None:
                return None
            return x[index] if isinstance(index, slice) else x.index_select(0, index)  # faster than x[index]

        def chosen_last(x: Tensor) -> Tensor:
            return x[:, index] if isinstance(index, slice) else x.index_select(1, index)

        heads = None if self.heads is None else PackedHeads(*map(chosen_last, self.heads))
        fields: Any = map(chosen, self[1:-2])
        return Batch({name: chosen(x) for name, x in self.observation.items()}, *fields)._replace(heads=heads)

    def split(self, sizes: int | list[int]) -> Iterator[Batch]:
        """Pieces of as many rows each (one number divides the rows), one after the other; one call per field, however
        many there are. They are views, but for `heads` of pieces of different sizes."""
        leaves = {name: torch.split(x, sizes) for name, x in self.observation.items()}
        fields: Any = [repeat(None) if x is None else torch.split(x, sizes) for x in self[1:-2]]
        by_field: Any = None if self.heads is None else zip(*(_split_last(x, sizes) for x in self.heads), strict=True)
        fields.append(repeat(None) if by_field is None else map(PackedHeads._make, by_field))
        for i, row in enumerate(zip(*fields, strict=False)):
            yield Batch({name: pieces[i] for name, pieces in leaves.items()}, *row)


def _split_last(x: Tensor, sizes: int | list[int]) -> Sequence[Tensor]:
    """Pieces of as many columns each. A step is compiled for each way in which they lie in memory; there are few."""
    pieces = torch.split(x, sizes, 1)
    return pieces if isinstance(sizes, int) else [piece.contiguous() for piece in pieces]


def flatten(
    rollout: Rollout, estimates: Estimates, device: torch.device, statistics: HeadStatistics | None = None
) -> Batch:
    """All rows, [T·N]; ``statistics`` of these if the action has heads."""

    def rows(x: Tensor) -> Tensor:
        return x.flatten(0, 1).to(device)

    return Batch(
        observation={name: rows(x[:-1]) for name, x in rollout.observation.items()},
        action=rows(rollout.action) if statistics is None else statistics.action,
        mask=None if rollout.mask is None else rows(rollout.mask),
        log_prob=rows(torch.where(rollout.valid, rollout.log_prob, 0.0)),
        parameters=rows(rollout.parameters),
        advantages=rows(estimates.advantages),
        returns=rows(estimates.returns),
        targets=rows(estimates.targets),
        prediction=rows(estimates.prediction),
        weight=rows(rollout.valid.to(torch.float32)),
        row=torch.arange(rollout.n_steps * rollout.n_envs, device=device),
        heads=None if statistics is None else statistics.packed,
    )


def head_statistics_of(
    rollout: Rollout, family: Family, device: torch.device, joint_entropy: bool
) -> HeadStatistics | None:
    """What the rows [T·N] say about the heads of the action, if it has any; as `Family.head_statistics`."""
    if not family.head_names:
        return None
    assert rollout.head_log_prob is not None, "it is collected where the family has heads"
    log_prob = torch.where(rollout.valid.unsqueeze(-1), rollout.head_log_prob, 0.0)
    action, own = (x.flatten(0, 1).to(device) for x in (rollout.action, log_prob))
    mask = None if rollout.mask is None else rollout.mask.flatten(0, 1).to(device)
    return family.head_statistics(action, mask, own, joint_entropy)


class RowBatches:
    """Every row once an epoch, in minibatches of exactly ``batch_size`` rows.

    If the rows do not fill the last one, it is padded with rows of weight 0: a smaller minibatch in a tensor of the
    same shape.
    """

    def __init__(self, batch: Batch, config: Config) -> None:
        self._batch, self._size = batch, config.batch_size

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """In a new order."""
        count, size = self._batch.weight.shape[0], self._size
        order = torch.randperm(count, generator=generator).to(self._batch.weight.device)
        missing = -count % size
        if missing:
            order = torch.cat([order, order[:missing]])
        shuffled = self._batch.rows(order)
        if missing:
            shuffled.weight[count:] = 0.0
        yield from shuffled.split(size)


class SequenceBatches:
    """Every sequence once an epoch, in minibatches of whole sequences with about ``batch_size`` rows each.

    ``sizes`` says to how many rows a minibatch is padded, with rows of weight 0 that belong to no sequence; it then
    has as many sequences, most of them without rows, so that its tensors have one of few shapes.
    """

    def __init__(
        self, batch: Batch, rollout: Rollout, config: Config, sizes: Callable[[int, int], tuple[int, ...]]
    ) -> None:
        self._batch, self._rollout = batch, rollout
        self._states = rollout.state.flatten(0, 1).to(batch.weight.device)
        memory = config.memory
        self._sequences = cut(rollout.start.numpy(), rollout.valid.numpy(), memory.max_length, memory.burn_in)
        rows = int((self._sequences.length - self._sequences.burn_in).sum())
        self._n_groups = max(1, round(rows / config.batch_size))
        piece = min(memory.max_length or rollout.n_steps, rollout.n_steps)
        usual = -(-config.batch_size * (piece + memory.burn_in) // piece)
        self._sizes = sizes(usual, piece + memory.burn_in)

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """In new groups."""
        seed = int(torch.randint(2**31, (), generator=generator))
        groups = pack(self._sequences.length, self._n_groups, np.random.default_rng(seed))
        if not groups:
            return
        sequences, n_envs = self._sequences.take(np.concatenate(groups)), self._rollout.n_envs
        n_sequences = np.array([len(group) for group in groups])
        n_rows = np.add.reduceat(sequences.length, np.cumsum(n_sequences) - n_sequences)
        sizes = np.array([next((size for size in self._sizes if size >= n), n) for n in n_rows])
        # All groups are gathered at once; between two of them lies what pads the first.
        order = _padded(sequences.rows(n_envs), n_rows, sizes, sequences.first(n_envs)[0])
        counted = _padded(sequences.counts().astype(np.float32), n_rows, sizes)
        device = self._batch.weight.device
        chosen = self._batch.rows(torch.from_numpy(order).to(device))
        chosen.weight.mul_(torch.from_numpy(counted).to(device))
        slots = sizes if self._sizes else n_sequences
        lengths, firsts = (
            torch.split(torch.from_numpy(_padded(x, n_sequences, slots)), slots.tolist())
            for x in (sequences.length, sequences.first(n_envs))
        )
        for minibatch, length, first in zip(chosen.split(sizes.tolist()), lengths, firsts, strict=True):
            yield minibatch._replace(sequences=SequenceBatch(length, first, self._states))


def _padded(
    values: NDArray[Any], counts: NDArray[np.int64], sizes: NDArray[np.int64], filler: float = 0
) -> NDArray[Any]:
    """Groups of ``counts`` values, one after the other, each padded to ``sizes`` entries."""
    unused = sizes - counts
    found = np.full(sizes.sum(), filler, values.dtype)
    found[np.arange(len(values)) + np.repeat(np.cumsum(unused) - unused, counts)] = values
    return found
