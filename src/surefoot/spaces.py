"""Observations as named leaves.

Whatever the observation space is (a Box, a Dict, a Tuple, nested), the rest of Surefoot sees a flat mapping from
leaf name to array. A plain space has the single leaf ``obs``; a Dict's leaves carry its keys, a Tuple's its positions,
nesting is joined by ``/``. What a saved tensor cannot be called by is written as in a web address (``%5C``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from surefoot.errors import UnsupportedSpaceError

Array = NDArray[Any]
FLOAT32_MAX = float(np.finfo(np.float32).max)
MAX_NAME_CHARACTERS = 400
"""Of a leaf, so that the tensors of a checkpoint can bear it."""
CONTEXT_LEAF = "%context"
"""How an episode stands, among the leaves of an observation (`vector.episode_context`); no env's own leaf can have the
name, since there % is written as %25."""
SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these"


@dataclass(frozen=True)
class Leaf:
    """One array of an observation: how a single env gives it, and in which dtype a policy sees it."""

    name: str
    path: tuple[str | int, ...]
    space: spaces.Space[Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def is_image(self) -> bool:
        """A uint8 Box with three axes: height, width, channels in either order."""
        return isinstance(self.space, spaces.Box) and self.dtype == np.uint8 and len(self.shape) == 3

    @property
    def is_continuous(self) -> bool:
        """Float numbers that a normalizer may scale."""
        return isinstance(self.space, spaces.Box) and self.dtype == np.float32

    @cached_property
    def raw_dtype(self) -> np.dtype[Any]:
        """How the env's own numbers are kept until a normalizer has seen them: in float64 where float32 may not tell
        them apart."""
        wide = isinstance(self.space, spaces.Box) and not np.can_cast(self.space.dtype, np.float32)
        return np.dtype(np.float64) if wide and self.is_continuous else self.dtype

    def find(self, observation: Any) -> Array:
        """This leaf of an observation, as it is given; ValueError says why it is none."""
        try:
            part = _at(observation, self.path)
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"does not fit its space {self.space} ({type(error).__name__}: {error})") from None
        return real_numbers(part)

    def as_raw(self, array: Array) -> Array:
        """Real numbers in `raw_dtype`; ValueError names one that it cannot hold."""
        if array.dtype == self.raw_dtype:
            return array
        try:
            with np.errstate(over="raise"):
                return array.astype(self.raw_dtype)
        except FloatingPointError:
            beyond = array[np.isfinite(array) & (np.abs(array) > FLOAT32_MAX)].flat[0]
            raise ValueError(
                f"holds {beyond:g}, which is beyond float32, the dtype of its space: scale it, or declare a space of "
                "float64 and set normalize_observations"
            ) from None


@dataclass(frozen=True)
class Layout:
    """The leaves of an observation space."""

    leaves: tuple[Leaf, ...]

    @classmethod
    def of(cls, space: spaces.Space[Any]) -> Layout:
        """Walk the space; an unsupported one is an error that names it."""
        leaves = tuple(_walk(space, ()))
        names = [leaf.name for leaf in leaves]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UnsupportedSpaceError(
                f"two observations have the name {twice!r}, nesting being joined by '/': rename a key of {space}"
            )
        long = next((name for name in names if len(name) > MAX_NAME_CHARACTERS), None)
        if long is not None:
            raise UnsupportedSpaceError(
                f"the observation {long[:40]}… has a name of {len(long)} characters, at most {MAX_NAME_CHARACTERS} are "
                "allowed: shorten the keys that lead to it"
            )
        if not any(math.prod(leaf.shape) for leaf in leaves):
            raise UnsupportedSpaceError(f"the observation space {space} is empty: give the agent something to see")
        return cls(leaves)

    def split(self, observation: Any) -> dict[str, Array]:
        """A (batched or single) observation of the env as named raw arrays; ValueError names a leaf that is none."""
        parts = {}
        for leaf in self.leaves:
            try:
                parts[leaf.name] = leaf.as_raw(leaf.find(observation))
            except ValueError as reason:
                raise ValueError(f"observation {leaf.name!r} {reason}") from None
        return parts

    def empty(self, *lead: int, raw: bool = False) -> dict[str, Array]:
        """Zeroed storage with the given leading axes, for raw observations or for those that a policy sees."""
        return {
            leaf.name: np.zeros((*lead, *leaf.shape), leaf.raw_dtype if raw else leaf.dtype) for leaf in self.leaves
        }

    def without(self, names: Collection[str]) -> Layout:
        """All but the named leaves."""
        return Layout(tuple(leaf for leaf in self.leaves if leaf.name not in names))


def _walk(space: spaces.Space[Any], path: tuple[str | int, ...]) -> Iterator[Leaf]:
    if isinstance(space, spaces.Dict):
        for key, sub in space.spaces.items():
            yield from _walk(sub, (*path, key))
        return
    if isinstance(space, spaces.Tuple):
        for i, sub in enumerate(space.spaces):
            yield from _walk(sub, (*path, i))
        return
    name = "/".join(map(_spelled, path)) if path else "obs"
    if isinstance(space, spaces.Discrete):
        yield Leaf(name, path, space, (), np.dtype(np.int64))
    elif isinstance(space, spaces.MultiDiscrete):
        yield Leaf(name, path, space, space.nvec.shape, np.dtype(np.int64))
    elif isinstance(space, spaces.MultiBinary):
        yield Leaf(name, path, space, space.shape, np.dtype(np.int8))
    elif isinstance(space, spaces.Box):
        keeps_bytes = space.dtype == np.uint8 and len(space.shape) == 3
        yield Leaf(name, path, space, space.shape, np.dtype(np.uint8 if keeps_bytes else np.float32))
    else:
        raise UnsupportedSpaceError(f"observation {name!r} has the space {space}; supported: {SUPPORTED}")


def _spelled(key: str | int) -> str:
    """A key as part of a name; ordinary ones, slashes among them, stay as they are."""
    parts = str(key).split("/")
    return "/".join(
        "%" if part == "" else "%2E" * len(part) if part in (".", "..") else _quoted(part) for part in parts
    )


def _quoted(text: str) -> str:
    kept = (c if c.isprintable() and c not in "\\%" else quote(c, safe="", errors="surrogatepass") for c in text)
    return "".join(kept)


def _at(observation: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        observation = observation[key]
    return observation


def real_numbers(given: Any) -> Array:
    """An array of real numbers; ValueError says what was given instead."""
    try:
        array = np.asarray(given)
    except Exception as error:  # whatever a foreign type raises when it is asked for an array
        raise ValueError(f"cannot be read: {type(error).__name__}: {error}") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"has dtype {array.dtype}, which are no real numbers")
    return array


def row_of(batch: Any, i: int) -> Any:
    """Row i of batched actions or observations: of an array, or of each array in a dict or tuple.

    A row of a Box is an array even if it has no axes, as `Box.contains` wants it; a single choice is a number.
    """
    if type(batch) is np.ndarray:
        return batch[i, ...] if batch.dtype.kind == "f" else batch[i]
    if isinstance(batch, Mapping):
        return {key: row_of(part, i) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(row_of(part, i) for part in batch)
    return batch[i]


def mismatch(space: spaces.Space[Any], observation: Any, name: str = "observation") -> str | None:
    """Why an observation does not belong to its space, in words, or None if it does."""
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, Mapping) or set(observation) != set(space.spaces):
            given = sorted(map(str, observation)) if isinstance(observation, Mapping) else type(observation).__name__
            return f"{name} should be a dict with the keys {sorted(map(str, space.spaces))}, got {given}"
        return _first(mismatch(sub, observation[key], f"{name}[{key!r}]") for key, sub in space.spaces.items())
    if isinstance(space, spaces.Tuple):
        if not isinstance(observation, tuple | list) or len(observation) != len(space.spaces):
            return f"{name} should be a tuple of {len(space.spaces)} parts, got {type(observation).__name__}"
        return _first(
            mismatch(s, o, f"{name}[{i}]") for i, (s, o) in enumerate(zip(space.spaces, observation, strict=True))
        )
    try:
        array = real_numbers(observation)
    except ValueError as reason:
        return f"{name} {reason}"
    if array.shape != (space.shape or ()):
        return f"{name} has shape {array.shape}, its space says {space.shape}"
    if isinstance(space, spaces.Box):
        integral = np.issubdtype(space.dtype, np.integer)
        if integral and not np.issubdtype(array.dtype, np.integer):
            return f"{name} has dtype {array.dtype}, its space says {space.dtype}"
        outside = (array < space.low) | (array > space.high)
        if outside.any():
            index = tuple(int(i) for i in np.argwhere(outside)[0])
            value, low, high = array[index], space.low[index], space.high[index]
            return f"{name}{list(index) if index else ''} = {value} lies outside its space's bounds [{low}, {high}]"
        return None
    if not space.contains(observation if space.shape == () else array):
        return f"{name} = {observation!r} is not in its space {space}"
    return None


def _first(reasons: Iterator[str | None]) -> str | None:
    return next((reason for reason in reasons if reason is not None), None)
