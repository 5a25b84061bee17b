"""Masks of legal actions: where environments say them, and how those of N envs are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from surefoot.actions.heads import HeadSpec
from surefoot.actions.masks import MaskForm
from surefoot.errors import EnvError
from surefoot.spaces import Array, Layout, Leaf

if TYPE_CHECKING:
    from surefoot.actions.distribution import Family  # workers read masks too, and do without torch

Whose = Callable[[], str]
MASK_METHOD, MASK_KEY, HEADS_ATTRIBUTE = "action_masks", "action_mask", "action_heads"
"""The env's method, the key in its info, and the attribute that declares heads."""


class MaskRows:
    """The current mask of each of N envs; in storage that another process may see.

    What envs give is noted as it is and read together, once all have given theirs: `settle`.
    """

    def __init__(self, form: MaskForm, n_envs: int, storage: tuple[Array, Array] | None = None) -> None:
        self.form = form
        if storage is None:
            storage = np.zeros((n_envs, form.conditional_width), np.bool_), np.zeros(n_envs, np.int64)
        self._rows, self._width = storage
        self._noted: dict[int, tuple[Any, Whose]] = {}
        self._taken: Array | None = None
        """All rows, if all were given at once and nothing happened since; the storage does not have them yet."""

    @property
    def any(self) -> bool:
        """Whether some env has given a mask."""
        return self._taken is not None or bool(self._noted) or bool(self._width.any())

    def has(self, i: int) -> bool:
        """Whether env i has given a mask."""
        return self._taken is not None or i in self._noted or bool(self._width[i])

    def note(self, i: int, given: Any, whose: Whose) -> None:
        """Take what env i gives, an array or a dict by head; ``whose`` is how an error calls it."""
        if self._taken is not None:
            self.settle()
        self._noted[i] = given, whose

    def take_all(self, given: list[Any], whose: Callable[[int], str]) -> None:
        """Read what all envs give, at once, in place of anything noted."""
        self._noted.clear()
        together = self.form.read_alike(given)
        self._taken = together
        if together is not None:
            return
        for i, each in enumerate(given):
            self.note(i, each, partial(whose, i))
        self.settle()

    def settle(self) -> None:
        """Read what was noted, into the storage. It must not have been changed since: no env has made a step."""
        if self._taken is not None:
            self.write_rows(slice(None), self._taken)
        if not self._noted:
            return
        noted, self._noted = self._noted, {}
        try:
            every = [given for given, _ in noted.values()]
            together = self.form.read_alike(every)
            if together is None:
                together = self.form.read(_stacked(every), len(noted), "")
            everyone = len(noted) == len(self._width) and list(noted) == sorted(noted)
            self.write_rows(slice(None) if everyone else np.array(list(noted)), together)
            return
        except Exception:  # of different forms, or one is wrong in any way: one by one it can be named
            pass
        for i, (given, whose) in noted.items():
            name, by_head = whose(), isinstance(given, Mapping)
            one = {k: _batched(v, name) for k, v in given.items()} if by_head else _batched(given, name)
            self.write_rows(slice(i, i + 1), self.form.read(one, 1, name))

    def write_rows(self, which: slice | Array, rows: Array) -> None:
        """Keep read masks of some envs."""
        self._taken = None
        width = rows.shape[1]
        self._rows[which, :width] = rows
        self._width[which] = width

    def clear(self, i: int) -> None:
        """Env i is another one now."""
        self._noted.pop(i, None)
        self.settle()
        self._width[i] = 0

    def all(self) -> Array | None:
        """Masks of all envs [N, M], all flat or all conditional; None if no env gives any."""
        if self._taken is not None:
            return self._taken
        self.settle()
        low, high = int(np.minimum.reduce(self._width)), int(np.maximum.reduce(self._width))
        if high == 0:
            return None
        if low == 0:
            env = int(np.flatnonzero(self._width == 0)[0])
            raise EnvError(f"env {env} gives no action mask, but others do; all envs of a run must be alike")
        rows = self._rows[:, :high].copy()
        if low < high:
            flat = self._width == low
            rows[flat] = rows[flat][:, self.form.flat_columns]
        return rows

    def saved(self, i: int) -> list[int] | None:
        """The mask of env i as JSON."""
        self.settle()
        return self._rows[i, : self._width[i]].astype(int).tolist() if self._width[i] else None

    def load(self, i: int, saved: list[int] | None) -> None:
        """Restore the mask of env i."""
        self.settle()
        self._width[i] = 0
        if saved is not None:
            self.write_rows(slice(i, i + 1), np.array([saved], np.bool_))

    def stored(self) -> dict[str, Array]:
        """Flags and widths of all rows."""
        self.settle()
        return {"rows": self._rows, "width": self._width}

    def load_stored(self, saved: Mapping[str, Array]) -> None:
        """Restore what `stored` gave."""
        rows, width = saved["rows"], saved["width"]
        fits = rows.shape == self._rows.shape and width.shape == self._width.shape
        if not fits or not np.isin(width, (0, self.form.flat_width, self.form.conditional_width)).all():
            raise ValueError("the saved masks are of other envs or actions")
        self._noted.clear()
        self._taken = None
        self._rows[:], self._width[:] = rows, width


class ObservedMasks:
    """Masks that stand in the observation, under one key of a Dict: an array, or a Dict by head."""

    def __init__(self, leaves: tuple[Leaf, ...], form: MaskForm) -> None:
        self._leaves, self._form = leaves, form

    @classmethod
    def of(cls, layout: Layout, key: str, form: MaskForm) -> ObservedMasks | None:
        """None if no part of the observation has that key, or no key is given."""
        leaves = tuple(leaf for leaf in layout.leaves if key and form.names and leaf.path[:1] == (key,))
        return cls(leaves, form) if leaves else None

    @property
    def names(self) -> frozenset[str]:
        """The leaves that hold the masks."""
        return frozenset(leaf.name for leaf in self._leaves)

    def read(self, observation: Mapping[str, Array]) -> Array:
        """Flags [N, M] from raw observation leaves [N, ...]."""
        first = self._leaves[0]
        n = len(observation[first.name])
        if len(first.path) == 1:
            given: Any = observation[first.name].reshape(n, -1)
        else:
            given = {"/".join(map(str, leaf.path[1:])): observation[leaf.name] for leaf in self._leaves}
        return self._form.read(given, n, f"the action mask in the observation {first.path[0]!r}")


def mask_method(env: gymnasium.Env[Any, Any]) -> Callable[[], Any] | None:
    """The env's own method that says its mask, through wrappers, or None."""
    found = env.get_wrapper_attr(MASK_METHOD) if env.has_wrapper_attr(MASK_METHOD) else None
    return found if callable(found) else None


def declared_heads(env: gymnasium.Env[Any, Any]) -> tuple[HeadSpec, ...] | None:
    """The heads that an env declares, through wrappers, or None."""
    found = env.get_wrapper_attr(HEADS_ATTRIBUTE) if env.has_wrapper_attr(HEADS_ATTRIBUTE) else None
    return None if found is None else tuple(found)


def require_legal(masks: Array, family: Family, step: int, envs: Array | None = None) -> None:
    """Raise and name env and head if a row leaves no legal action (F01); ``envs`` are those of the rows if not all."""
    found = family.dead_end(masks)
    if found is not None:
        row, head = found
        env = row if envs is None else int(envs[row])
        where = f" for the head {head}" if head else ""
        raise EnvError(f"env {env} at step {step} has no legal action{where}: its action mask is all False")


def _stacked(given: list[Any]) -> Any:
    """Masks of several envs with rows first; a ValueError if they are not alike."""
    first = given[0]
    if not isinstance(first, Mapping):
        return np.array(given)
    try:
        found = {name: np.array([each[name] for each in given]) for name in first}
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError("masks by different heads") from error
    if any(len(each) != len(first) for each in given):
        raise ValueError("masks by different heads")
    return found


def _batched(given: Any, whose: str) -> Array:
    try:
        return np.asarray(given)[None]
    except Exception as error:  # whatever a foreign type raises when it is asked for an array
        raise EnvError(f"{whose} must be an array of flags, not {given!r} ({error})") from None
