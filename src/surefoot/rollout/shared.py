"""The memory in which the training process and its workers exchange steps.

It has no name in the file system, so it goes with the last process that holds it, however that one ends; and the size
of /dev/shm does not limit it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from surefoot.errors import UnsupportedSpaceError
from surefoot.rollout.envs import Flags
from surefoot.spaces import Array, Layout

ALIGNMENT = 64


def nameless_memory() -> int:
    """A file descriptor of empty memory."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("surefoot")
    with tempfile.TemporaryFile() as file:  # where there is no memfd: a file without a name
        return os.dup(file.fileno())


class Board:
    """Arrays of N rows over shared memory, one row per env; every process that lays them out sees the same rows."""

    def __init__(self, memory: int, layout: Layout, action_space: spaces.Space[Any], n_envs: int) -> None:
        if action_space.shape is None or action_space.dtype is None:
            raise UnsupportedSpaceError(
                f"actions of {action_space} are no single array; flatten the action space in a wrapper"
            )
        self._buffer = b""  # measures; nothing is mapped yet
        self._offset = 0
        size = self._lay_out(layout, action_space, n_envs)
        if os.fstat(memory).st_size < size:
            os.ftruncate(memory, size)
        self._buffer = mmap.mmap(memory, size)
        self._lay_out(layout, action_space, n_envs)

    observation: dict[str, Array]
    """What to act on next, by leaf."""
    final: dict[str, Array]
    """True successor of a finished row, by leaf."""
    action: Array
    reward: NDArray[np.float64]
    terminated: Flags
    truncated: Flags
    dropped: Flags
