"""From settings to a memory: the registry of kinds."""

from __future__ import annotations

from collections.abc import Callable

from surefoot.config import Config, MemoryConfig, accept_names_of
from surefoot.nets.init import Initializer
from surefoot.policy.memory import Memory
from surefoot.policy.recurrent import Recurrent

MEMORIES: dict[str, Callable[[int, MemoryConfig, str, Initializer], Memory]] = {"lstm": Recurrent, "gru": Recurrent}
"""By the name that ``memory.kind`` has: made from the number of features, the settings, ``policy.activation``, and how
weights start."""
accept_names_of(MEMORIES, "memory.kind")


def build_memory(config: Config, n_inputs: int, init: Initializer) -> Memory | None:
    """The configured memory, or None."""
    if config.memory.kind == "none":
        return None
    return MEMORIES[config.memory.kind](n_inputs, config.memory, config.policy.activation, init)
