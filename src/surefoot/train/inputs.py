"""What a caller gives to `predict`, as arrays that the policy takes; what does not fit is explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.errors import ConfigError
from surefoot.spaces import Array, Layout, Leaf
from surefoot.vector.codes import code_bounds, unknown_code
from surefoot.vector.episode_context import EpisodeContext
from surefoot.vector.guard import Limit, observation_limit


def read_observation(
    layout: Layout, space: spaces.Space[Any], given: Any, normalizes: bool = False
) -> tuple[dict[str, Array], bool]:
    """Raw observation leaves [N, ...], and whether a single observation was given (N is 1 then).

    ``normalizes``: a normalizer will see them.
    """
    if not isinstance(space, spaces.Tuple) and isinstance(given, tuple) and _is_reset(given):
        raise ConfigError(
            f"the observation must be {_expected(layout)}, got a tuple with an info: env.reset() returns the two, pass "
            "the first of them"
        )
    parts = {leaf.name: _read_leaf(leaf, given, observation_limit(normalizes)) for leaf in layout.leaves}
    lead = {leaf.name: parts[leaf.name].shape[: parts[leaf.name].ndim - len(leaf.shape)] for leaf in layout.leaves}
    if len(set(lead.values())) > 1:
        said = ", ".join(f"{name!r} has {f'{axes[0]} rows' if axes else 'one'}" for name, axes in lead.items())
        raise ConfigError(f"the parts of the observation do not belong together: {said}")
    single = next(iter(lead.values())) == ()
    return ({name: array[None] for name, array in parts.items()} if single else parts), single


def read_state(given: Any, n_rows: int, size: int) -> Array | None:
    """Memory states [N, size], as `predict` returned them."""
    if given is None or size == 0:
        return None
    state = np.asarray(given)
    if state.shape != (n_rows, size) or state.dtype.kind not in "fiu":
        raise ConfigError(
            f"state has shape {state.shape}, the memory of {n_rows} observation(s) has {(n_rows, size)}: "
            "pass what predict returned, or None at the start"
        )
    return state.astype(np.float32)


def read_starts(given: Any, n_rows: int) -> Array | None:
    """Which rows begin an episode [N]."""
    if given is None:
        return None
    starts = np.atleast_1d(np.asarray(given))
    if starts.shape != (n_rows,):
        raise ConfigError(f"episode_start has shape {starts.shape}, it must be one flag for each of {n_rows} row(s)")
    return starts.astype(np.bool_)


def _read_leaf(leaf: Leaf, given: Any, limit: Limit) -> Array:
    expected = f"the env gives {leaf.shape}, or a batch of them"
    try:
        part = given
        for key in leaf.path:
            part = part[key]
        array = np.asarray(part)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ConfigError(
            f"observation {leaf.name!r} cannot be read ({type(error).__name__}: {error}); {expected}"
        ) from None
    if array.dtype.kind not in "biuf":
        raise ConfigError(f"observation {leaf.name!r} is {type(part).__name__}, not numbers; {expected}")
    axes = array.ndim - len(leaf.shape)
    if axes not in (0, 1) or array.shape[axes:] != leaf.shape:
        raise ConfigError(f"observation {leaf.name!r} has shape {array.shape}, {expected}")
    return _as_raw(leaf, array, limit)


def _as_raw(leaf: Leaf, array: Array, limit: Limit) -> Array:
    """In the dtype of raw observations; numbers must be finite and within the limit, codes known, pixels bytes."""
    bounds = code_bounds(leaf)
    reason = None if bounds is None else unknown_code(array, bounds)
    if reason is not None:
        raise ConfigError(f"observation {leaf.name!r} {reason}")
    finite = np.isfinite(array)
    if not finite.all():
        raise ConfigError(f"observation {leaf.name!r} holds {array[~finite].flat[0]}; it must be finite")
    largest = min(limit.largest, float(np.finfo(leaf.raw_dtype).max)) if leaf.is_continuous else np.inf
    beyond = np.abs(array) > np.float64(largest)
    if beyond.any():
        raise ConfigError(f"observation {leaf.name!r} holds {array[beyond].flat[0]:g}, {limit.words}")
    with np.errstate(invalid="ignore"):  # what a byte cannot hold is found below
        raw: Array = array.astype(leaf.raw_dtype)
    if leaf.is_image and (raw != array).any():
        raise ConfigError(f"observation {leaf.name!r} is an image of bytes: its pixels are whole numbers from 0 to 255")
    return raw


def _is_reset(given: tuple[Any, ...]) -> bool:
    return len(given) == 2 and isinstance(given[1], Mapping)


def _expected(layout: Layout) -> str:
    if len(layout.leaves) == 1:
        return f"an array of shape {layout.leaves[0].shape}"
    return "a dict with the parts " + ", ".join(f"{leaf.name!r} {leaf.shape}" for leaf in layout.leaves)


def read_episode_return(given: Any, n_rows: int, context: EpisodeContext | None) -> Array | None:
    """What a caller says of the episodes' returns so far, as the policy sees it [n_rows, C]; None if it sees none."""
    if context is None:
        if given is not None:
            raise ConfigError("episode_return is for a policy that is shown it: train with risk.observe_return = true")
        return None
    if given is None:
        raise ConfigError("risk.observe_return: predict needs episode_return, the sum of the rewards so far")
    try:
        discounted = context.discount < 1.0
        parts = np.asarray(given, np.float64).reshape(2 if discounted else 1, -1)
        running, weight = parts[0], parts[1] if discounted else np.ones(n_rows)
        if running.shape != (n_rows,) or not np.isfinite(parts).all():
            raise ValueError
    except (TypeError, ValueError):
        pair = " (with a discounted limit, two: the sum and the next reward's discount)"
        raise ConfigError(
            f"episode_return must be one finite number for each of the {n_rows} observations"
            f"{pair if context.discount < 1.0 else ''}, got {given!r}"
        ) from None
    return context.seen(running, weight)
