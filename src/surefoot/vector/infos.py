"""The infos of N envs after a step: columns stay columns until someone asks for the row of one env.

What is read must be read before the next step: a vector env may use its arrays again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from surefoot.spaces import Array

Flags = NDArray[np.bool_]
Row = Mapping[str, Any]
NO_INFO: Row = {}


class Column(NamedTuple):
    """What all envs say under one key."""

    values: Array
    """[N] real numbers."""
    given: Flags
    """[N]; False where the env does not say it, and the value means nothing."""


class Infos(Sequence[Row]):
    """One info for each env; empty where the row was no transition."""

    @abstractmethod
    def row(self, i: int) -> Row:
        """The info of env i."""

    @abstractmethod
    def has(self, key: str) -> bool:
        """Whether some env may have the key; if not, no row need be asked."""

    def column(self, key: str) -> Column | None:
        """One real number of each env; None if the values are no such, or stand in rows: then the rows tell."""
        del key
        return None

    @overload
    def __getitem__(self, i: int) -> Row: ...
    @overload
    def __getitem__(self, i: slice) -> list[Row]: ...
    def __getitem__(self, i: int | slice) -> Row | list[Row]:
        if isinstance(i, slice):
            return [self.row(k) for k in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(f"there are infos of {len(self)} envs, not of env {i}")
        return self.row(i % len(self))


class RowInfos(Infos):
    """Infos that come env by env."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, i: int) -> Row:
        return self._rows[i]

    def has(self, key: str) -> bool:
        for info in self._rows:  # noqa: SIM110  # a generator would take several times as long, at every step
            if key in info:
                return True
        return False


class ColumnInfos(Infos):
    """The info of a vector env, where ``_key`` tells who has ``key``. A number or text is said of every env."""

    def __init__(self, info: Row, valid: Flags, last: Any = None, ended: Flags | None = None) -> None:
        """Rows that are not ``valid`` are empty; those that ``ended`` [N] tell of ``last``, if it is given."""
        self._info, self._valid = info, valid
        self._last: Any = last
        self._ended = None if last is None else ended

    def __len__(self) -> int:
        return len(self._valid)

    def row(self, i: int) -> Row:
        if not self._valid[i]:
            return NO_INFO
        source = self._last if self._ended is not None and self._ended[i] else self._info
        return info_row(source, i, len(self))

    def has(self, key: str) -> bool:
        return key in self._info or (
            self._last is not None and (not isinstance(self._last, Mapping) or key in self._last)
        )

    def column(self, key: str) -> Column | None:
        found = column_of(self._info, key, len(self))
        if found is not None and self._ended is not None and self._ended.any():
            last = column_of(self._last, key, len(self)) if isinstance(self._last, Mapping) else None
            if last is None:
                return None
            pairs = zip(last, found, strict=True)
            found = Column(*(np.where(self._ended, of_last, of_info) for of_last, of_info in pairs))
        return None if found is None else Column(found.values, found.given & self._valid)


def column_of(info: Row, key: str, n_envs: int) -> Column | None:
    """One real number of each env under a key of a vector env's info; None if the values are no such."""
    if key not in info or (key.startswith("_") and key[1:] in info):
        return Column(np.zeros(n_envs), np.zeros(n_envs, np.bool_))
    values, given = info[key], givers(info, key, n_envs)
    if given is None or not isinstance(values, np.ndarray | np.generic | int | float):
        return None
    values = np.asarray(values)
    if values.dtype.kind not in "biuf" or values.shape not in ((), (n_envs,)):
        return None
    return Column(np.broadcast_to(values, (n_envs,)), given)


def givers(info: Row, key: str, n_envs: int) -> Flags | None:
    """[N] who has the key, which stands in a vector env's info; None if what tells it is no array of flags."""
    has = info.get(f"_{key}")
    if has is None:
        return np.ones(n_envs, np.bool_)
    return has if isinstance(has, np.ndarray) and (has.dtype, has.shape) == (np.bool_, (n_envs,)) else None


def info_row(info: Any, i: int, n_envs: int) -> Row:
    """The info of env i out of a vector env's info."""
    if not isinstance(info, Mapping):  # an object array of single infos
        return info[i] or NO_INFO
    row: dict[str, Any] = {}
    for key, value in info.items():
        has = info.get(f"_{key}")
        if (key.startswith("_") and key[1:] in info) or (has is not None and not has[i]):
            continue
        if isinstance(value, Mapping):
            row[key] = info_row(value, i, n_envs)
        else:
            row[key] = value[i] if np.ndim(value) > 0 and len(value) == n_envs else value
    return row
