"""What survives an iteration, and what of it a loaded agent goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

ENV_TENSORS = ("rewards/running",)
"""Tensors, besides those of the collector, that depend on the number of envs."""


@dataclass(frozen=True)
class TrainerState:
    """Everything that an iteration leaves behind: tensors by name, and plain values."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]
    exact: bool
    """Open episodes are included, so that a continued run equals an uninterrupted one bit for bit (Y02)."""


class Resumed(NamedTuple):
    """How the open episodes of a loaded state go on (Y08)."""

    exact: bool
    """They go on where they were; else new ones have begun."""
    reason: str
    """Why new ones have begun."""


class ScheduleSpan(NamedTuple):
    """Over which part of training schedules run (O03)."""

    timesteps: int | None = None
    """Env steps at which they reach their end values; None before the first training."""
    first_update: int = 0
    """Updates made before they began."""


class Compiled(NamedTuple):
    """What runs compiled. That of a loaded state is compiled again when training goes on, not to act."""

    kernel: bool = False
    step: bool = False


class OpenEpisodes(NamedTuple):
    """What `Collector.save` gives."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


def why_not_open(values: Mapping[str, Any], n_envs: int) -> str | None:
    """Why envs cannot go on with saved episodes, as far as these tell; None if they may."""
    if values["envs"] is None:
        return "the state of its envs was not saved with it"
    if len(values["active"]) != n_envs:
        return f"it was saved with {len(values['active'])} envs, here are {n_envs}"
    return None


def section(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin with a prefix, without it."""
    return {name.removeprefix(f"{prefix}/"): x for name, x in tensors.items() if name.startswith(f"{prefix}/")}
