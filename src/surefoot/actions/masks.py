"""What a mask of legal actions may look like, and how it is read into one row of flags.

A *flat* mask has one flag for each choice of each head, head after head. A *conditional* one has, for each head whose
mask can depend on another (`Head.mask_parent`), such a row for each parent action: `[n_parent_actions, n]`, flattened.
Which of the two an environment gives shows in its width, or in the shapes of its mask by head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.actions.heads import Head, HeadSpec, heads_of, nearest
from surefoot.errors import EnvError
from surefoot.spaces import Array

FLAGS = bytes((0, 1))
"""How flags look in memory."""
_shape = attrgetter("shape")


@dataclass(frozen=True)
class MaskForm:
    """The masks that belong to some heads."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    """Choices of each head."""
    n_parent_actions: tuple[int, ...]
    """Choices of the head on which each head's mask may depend; 1 if it depends on none."""

    @classmethod
    def of(cls, space: spaces.Space[Any], declared: Sequence[HeadSpec] | None = None) -> MaskForm:
        """For an action space."""
        return cls.of_heads(heads_of(space, declared))

    @classmethod
    def of_heads(cls, heads: Sequence[Head]) -> MaskForm:
        """For resolved heads."""
        choices = [head for head in heads if head.size is not None]
        counts = [1 if head.mask_parent is None else heads[head.mask_parent].size or 1 for head in choices]
        return cls(tuple(h.name for h in choices), tuple(h.size or 0 for h in choices), tuple(counts))

    @cached_property
    def flat_width(self) -> int:
        """Flags of a flat mask."""
        return sum(self.sizes)

    @cached_property
    def conditional_width(self) -> int:
        """Flags of a conditional mask."""
        return sum(size * count for size, count in zip(self.sizes, self.n_parent_actions, strict=True))

    @cached_property
    def flat_columns(self) -> Array:
        """The column in a flat mask of each flag of a conditional one, [conditional_width]."""
        ends = np.cumsum(self.sizes)
        columns = [np.arange(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]
        return np.concatenate([np.tile(c, n) for c, n in zip(columns, self.n_parent_actions, strict=True)])

    def read(self, given: Any, n_rows: int, whose: str) -> Array:
        """Masks of ``n_rows`` envs, an array or a dict by head with rows first, as flags [n_rows, width].

        ``whose`` says in an error where the mask comes from.
        """
        if not self.names:
            raise EnvError(f"{whose} gives an action mask, but no part of its action space is a choice among n")
        if isinstance(given, Mapping):
            return self._by_head(given, n_rows, whose)
        rows = flags(given, whose)
        if rows.shape not in ((n_rows, self.flat_width), (n_rows, self.conditional_width)):
            raise EnvError(
                f"{whose} has shape {rows.shape[1:] if rows.shape[:1] == (n_rows,) else rows.shape}, not "
                f"{self._expected()}: one flag for each choice of {self._described()}"
            )
        return rows

    def read_alike(self, given: list[Any]) -> Array | None:
        """Masks of several envs as flags [N, width] if all are plain: arrays of flags in one form, or dicts with a flat
        array of flags for each head. None if not, and `read` will say what they are."""
        if not self.names:
            return None
        n, parts = len(given), given
        try:
            if type(given[0]) is dict:  # other mappings are read one by one
                parts, width, of_heads = [], self.flat_width, self._each_head
                for each in given:
                    parts += of_heads(each)
                alike = list(map(len, given)) == [len(self.names)] * n and list(map(_shape, parts)) == self._shapes * n
            else:
                width = len(given[0])
                alike = (
                    width in (self.flat_width, self.conditional_width) and list(map(_shape, given)) == [(width,)] * n
                )
            # For many small arrays much faster than `np.concatenate`. Numbers of more than a byte make it longer.
            joined = bytearray().join(parts) if alike else None
        except Exception:  # whatever a foreign type raises; `read` will say what it is
            return None
        if joined is None or len(joined) != n * width or joined.translate(None, FLAGS):
            return None
        return np.frombuffer(joined, np.bool_).reshape(n, width)

    def group_starts(self, conditional: bool) -> Array:
        """Where the flags of each head, for each parent action, begin in a mask."""
        counts = self.n_parent_actions if conditional else (1,) * len(self.sizes)
        sizes = np.repeat(self.sizes, counts)
        starts: Array = np.cumsum(sizes) - sizes
        return starts

    def _first(self, h: int, conditional: bool) -> int:
        """The first column of head ``h``."""
        counts = self.n_parent_actions[:h] if conditional else (1,) * h
        return sum(size * count for size, count in zip(self.sizes[:h], counts, strict=True))

    def _by_head(self, given: Mapping[Any, Any], n_rows: int, whose: str) -> Array:
        found = np.ones((n_rows, self.flat_width), np.bool_)
        for name, part in given.items():
            columns = self._columns_by_head.get(name)
            mask = np.asarray(part)
            if columns is None or mask.dtype != np.bool_ or mask.shape != (n_rows, columns.stop - columns.start):
                return self._any_by_head(given, n_rows, whose)
            found[:, columns] = mask
        return found

    @cached_property
    def _each_head(self) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
        """Takes the masks of all heads from a mask by head, in order."""
        if len(self.names) > 1:
            return itemgetter(*self.names)
        (name,) = self.names
        return lambda mask: (mask[name],)

    @cached_property
    def _shapes(self) -> list[tuple[int]]:
        """Of flat masks by head."""
        return [(size,) for size in self.sizes]

    @cached_property
    def _columns_by_head(self) -> dict[str, slice]:
        ends = np.cumsum(self.sizes).tolist()
        return {name: slice(end - n, end) for name, end, n in zip(self.names, ends, self.sizes, strict=True)}

    def _any_by_head(self, given: Mapping[Any, Any], n_rows: int, whose: str) -> Array:
        """Conditional masks, or such as are not flags of the usual shape; or an error."""
        unknown = next((name for name in given if name not in self.names), None)
        if unknown is not None:
            raise EnvError(
                f"{whose} has a mask for {unknown!r}, which is no head; the heads are {', '.join(self.names)}"
                f"{nearest(str(unknown), self.names)}"
            )
        masks = {name: flags(part, f"{whose}, head {name!r},") for name, part in given.items()}
        conditional = any(mask.ndim == 3 for mask in masks.values())
        found = np.ones((n_rows, self.conditional_width if conditional else self.flat_width), np.bool_)
        for name, mask in masks.items():
            h = self.names.index(name)
            size, count = self.sizes[h], self.n_parent_actions[h] if conditional else 1
            if mask.shape not in ((n_rows, size), (n_rows, self.n_parent_actions[h], size)):
                either = f" or {(self.n_parent_actions[h], size)}" if self.n_parent_actions[h] > 1 else ""
                raise EnvError(f"{whose}, head {name!r}, has shape {mask.shape[1:]}, not {(size,)}{either}")
            first = self._first(h, conditional)
            block = found[:, first : first + count * size].reshape(n_rows, count, size)
            block[:] = mask[:, None] if mask.ndim == 2 else mask
            found[:, first : first + count * size] = block.reshape(n_rows, -1)
        return found

    def _expected(self) -> str:
        either = f" or ({self.conditional_width},)" if self.conditional_width != self.flat_width else ""
        return f"({self.flat_width},){either}"

    def _described(self) -> str:
        return ", ".join(f"{name!r} ({size})" for name, size in zip(self.names, self.sizes, strict=True))


def flags(given: Any, whose: str) -> Array:
    """An array of True and False, or of 1 and 0, as flags."""
    try:
        array = np.asarray(given)
    except Exception as error:  # whatever a foreign type raises when it is asked for an array
        raise EnvError(f"{whose} must be an array of flags, not {given!r} ({error})") from None
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind not in "iuf":
        raise EnvError(f"{whose} has dtype {array.dtype}; it must hold True and False, or 1 and 0")
    found = array.astype(np.bool_)
    if (found != array).any():
        odd = array[found != array].flat[0]
        raise EnvError(f"{whose} holds {odd}; it must hold True and False, or 1 and 0")
    return found
