"""Old formats, one step at a time (Y01). A change of the format adds a function and raises FORMAT_VERSION."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from surefoot.store.jsontext import JSON

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Contents:
    """All that a migration may change: the manifest's own fields, the arrays, the values."""

    fields: dict[str, JSON]
    tensors: dict[str, npt.NDArray[Any]]
    values: dict[str, JSON]


Migration = Callable[[Contents], Contents]

# Format -> function to the next format.
MIGRATIONS: dict[int, Migration] = {}


class MissingMigration(ValueError):
    """No function leads from this format to the next."""


def migrate(contents: Contents, version: int) -> Contents:
    """Bring contents of format `version` to FORMAT_VERSION."""
    for step in range(version, FORMAT_VERSION):
        if step not in MIGRATIONS:
            raise MissingMigration(f"format {step} is older than any that this version reads")
        contents = MIGRATIONS[step](contents)
    return contents
