"""Old formats, one step at a time (Y01). A change of the format adds a function and raises FORMAT_VERSION."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from surefoot.store.jsontext import JSON

FORMAT_VERSION = 2


@dataclass(frozen=True)
class Contents:
    """All that a migration may change: the manifest's own fields, the arrays, the values."""

    fields: dict[str, JSON]
    tensors: dict[str, npt.NDArray[Any]]
    values: dict[str, JSON]


Migration = Callable[[Contents], Contents]


def _with_spaces_and_schedules(contents: Contents) -> Contents:
    """Format 2 has the spaces, how far schedules reach and of what kind the envs were, some tensors under other names,
    and Gaussian actions in units of their box. Which box that is only the env can tell, so those outputs are converted
    when there is one."""
    learner: Any = contents.values.get("learner")
    if not isinstance(learner, dict):
        return contents
    defaults = {
        "schedules": {"timesteps": None, "first_update": 0},
        "kernel": False,
        "action_units": "env",
        "calibration": None,
    }
    renamed = {"live": "active", "fresh": "episode_start"}
    saved = {renamed.get(key, key): value for key, value in learner["collector"].items()}
    collector = {"kind": None, "context": None} | saved
    values = contents.values | {"learner": defaults | learner | {"collector": collector}, "spaces": None}
    tensors = {_renamed(name): array for name, array in contents.tensors.items()}
    return Contents(contents.fields, tensors, values)


def _renamed(tensor: str) -> str:
    """A head is a sub-action now, and the last layer an output."""
    section, _, name = tensor.replace("optimiser/", "optimizer/", 1).partition("/")
    if section == "policy":
        name = name.replace("head.free", "head.state_independent")
        name = ".".join("output" if part == "head" else part for part in name.split("."))
    return f"{section}/{name}" if name else section


# Format -> function to the next format.
MIGRATIONS: dict[int, Migration] = {1: _with_spaces_and_schedules}


class CannotMigrate(ValueError):
    """Contents of an old format that cannot be brought to the current one."""


def migrate(contents: Contents, version: int) -> Contents:
    """Bring contents of format `version` to FORMAT_VERSION."""
    for step in range(version, FORMAT_VERSION):
        if step not in MIGRATIONS:
            raise CannotMigrate(f"format {step} is older than any that this version reads")
        try:
            contents = MIGRATIONS[step](contents)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise CannotMigrate(f"it cannot be brought from format {step} to {step + 1}: {error!r}") from error
    return contents
