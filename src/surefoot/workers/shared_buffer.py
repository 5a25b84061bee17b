"""The memory in which the training process and its workers exchange steps.

It has no name in the file system, so it goes with the last process that holds it, however that one ends; and the size
of /dev/shm does not limit it.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from surefoot.actions.heads import Path, assemble, parts_of
from surefoot.spaces import Array, Layout
from surefoot.vector.infos import Flags

ALIGNMENT = 64
Spec = tuple[tuple[int, ...], np.dtype[Any]]


def nameless_memory() -> int:
    """A file descriptor of empty memory."""
    try:
        return os.memfd_create("surefoot")
    except AttributeError:  # not Linux: a file without a name
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())


@dataclass(frozen=True)
class SharedBuffer:
    """Arrays of one row per env that several processes see."""

    observation: dict[str, Array]
    """What to act on next, by leaf."""
    final: dict[str, Array]
    """The true successor of a finished row, by leaf."""
    action: dict[Path, Array]
    """By leaf of the action space."""
    reward: NDArray[np.float64]
    terminated: Flags
    truncated: Flags
    dropped: Flags
    mask: Flags
    """[N, M] legal actions of the observation, as far as ``mask_width`` says."""
    mask_width: NDArray[np.int64]
    """[N], 0 where an env gives no mask."""

    @classmethod
    def over(
        cls, memory: int, layout: Layout, action_space: spaces.Space[Any], n_envs: int, mask_width: int = 0
    ) -> SharedBuffer:
        """The arrays of N envs; every process that asks for them over the same memory gets the same ones."""
        leaves: list[Spec] = [((n_envs, *leaf.shape), leaf.raw_dtype) for leaf in layout.leaves]
        parts = dict(parts_of(action_space))
        actions: list[Spec] = [((n_envs, *(part.shape or ())), np.dtype(part.dtype)) for part in parts.values()]
        reward: Spec = ((n_envs,), np.dtype(np.float64))
        flag: Spec = ((n_envs,), np.dtype(np.bool_))
        masks: list[Spec] = [((n_envs, mask_width), np.dtype(np.bool_)), ((n_envs,), np.dtype(np.int64))]
        arrays = iter(_lay_out(memory, [*leaves, *leaves, *actions, reward, flag, flag, flag, *masks]))
        observation = {leaf.name: next(arrays) for leaf in layout.leaves}
        final = {leaf.name: next(arrays) for leaf in layout.leaves}
        return cls(observation, final, {path: next(arrays) for path in parts}, *arrays)

    def write_actions(self, actions: Any) -> None:
        """Env actions [N, ...], nested as the action space is."""
        for path, array in self.action.items():
            part = actions
            for key in path:
                part = part[key]
            np.copyto(array, part, casting="same_kind")

    def actions(self, space: spaces.Space[Any]) -> Any:
        """A copy of what was written."""
        return assemble(space, {path: array.copy() for path, array in self.action.items()})

    def rows(self, rows: slice) -> SharedBuffer:
        """The arrays of some of the envs."""
        return SharedBuffer(
            {name: array[rows] for name, array in self.observation.items()},
            {name: array[rows] for name, array in self.final.items()},
            {path: array[rows] for path, array in self.action.items()},
            self.reward[rows],
            self.terminated[rows],
            self.truncated[rows],
            self.dropped[rows],
            self.mask[rows],
            self.mask_width[rows],
        )


def _lay_out(memory: int, specs: Sequence[Spec]) -> list[Array]:
    offsets = [0]
    for shape, dtype in specs:
        n_bytes = math.prod(shape) * dtype.itemsize
        offsets.append(-(-(offsets[-1] + n_bytes) // ALIGNMENT) * ALIGNMENT)
    if os.fstat(memory).st_size < offsets[-1]:
        os.ftruncate(memory, offsets[-1])
    mapped = mmap.mmap(memory, offsets[-1])
    return [np.ndarray(shape, dtype, mapped, offset) for (shape, dtype), offset in zip(specs, offsets, strict=False)]
