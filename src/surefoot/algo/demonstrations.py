"""Demonstration sets: observations and actions, checked against the spaces before anything starts.

The arrays are ``observation/<leaf>`` [N, ...] (``observation`` if there is one leaf), ``action`` [N, ...] in the form
of the env, and perhaps ``reward`` [N], ``episode_start`` [N] and ``mask`` [N, M].
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

from surefoot.actions.box import BoundedBoxCodec, BoxCodec
from surefoot.actions.distribution import Family
from surefoot.actions.factored import FactoredFamily
from surefoot.actions.heads import nearest
from surefoot.algo.demonstration_files import read_arrays, sha256_of
from surefoot.algo.demonstration_minari import PREFIX, file_of, read_minari
from surefoot.errors import ConfigError, EnvError
from surefoot.spaces import Array, Layout, Leaf
from surefoot.vector.codes import code_bounds

OTHER_ARRAYS = ("action", "reward", "episode_start", "mask")
"""Beside the observations."""
EDGE = 1e-6
"""How near to a bound a demonstrated action is taken to be, where the policy reaches it only in the limit."""


class Demonstrations(NamedTuple):
    """N rows, as the file has them."""

    observation: dict[str, Array]
    """[N, ...] raw, by leaf."""
    action: Array
    """[N, *action_shape] as the policy stores actions."""
    mask: Array | None
    returns: Array | None
    """[N] discounted to the end of the episode; None if the file has no rewards."""


def is_minari(source: str) -> bool:
    """Whether it names a Minari data set, not a file."""
    return source.startswith(PREFIX)


def fingerprint_of(source: str) -> str:
    """sha256 of the file that holds the demonstrations."""
    return sha256_of(file_of(source) if is_minari(source) else Path(source))


def load_demonstrations(
    path: Path, layout: Layout, action_space: spaces.Space[Any], family: Family, distribution: str, gamma: float
) -> Demonstrations:
    """Read a file, or a data set that is named ``minari:…``; a `ConfigError` says what does not fit the env."""
    arrays = read_minari(str(path), layout) if is_minari(str(path)) else read_arrays(path)
    _require_known(path, arrays, layout)
    rows = len(arrays["action"]) if "action" in arrays and arrays["action"].ndim else 0
    if not rows:
        raise ConfigError(f"{path}: there is no demonstration in it (no array `action`, or an empty one)")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ConfigError(f"{path}: {name} has dtype {array.dtype}, which are no numbers")
        if array.ndim == 0 or len(array) != rows:
            raise ConfigError(f"{path}: {name} has shape {array.shape}, action has {rows} rows")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array.reshape(rows, -1)).all(1))[0, 0])
            raise ConfigError(f"{path}: {name} is not finite in row {row}")
    for name in ("reward", "episode_start"):
        if name in arrays and arrays[name].size != rows:
            raise ConfigError(f"{path}: {name} has shape {arrays[name].shape}, one for each of {rows} rows is wanted")
    observation = _observations(path, arrays, layout, rows)
    action = _stored(path, arrays["action"], action_space, family, distribution)
    mask = _masks(path, arrays, family)
    if mask is not None:
        illegal = _first_illegal(action, mask, family)
        if illegal is not None:
            shown = arrays["action"][illegal]
            raise ConfigError(f"{path}: the action {shown} of row {illegal} is not legal by its own mask")
    with np.errstate(over="ignore", invalid="ignore"):
        returns = _returns(arrays, gamma)
        if returns is not None and not np.isfinite(returns.std()):
            raise ConfigError(f"{path}: reward is so large that returns cannot be compared (up to {returns.max():g})")
    return Demonstrations(observation, action, mask, returns)


def _require_known(path: Path, arrays: Mapping[str, Array], layout: Layout) -> None:
    """A name that nothing reads is likely one that was misspelt."""
    known = [f"observation/{leaf.name}" for leaf in layout.leaves] + [*OTHER_ARRAYS]
    if len(layout.leaves) == 1:
        known.append("observation")
    for name in arrays:
        if name not in known:
            raise ConfigError(
                f"{path}: nothing reads an array {name!r}: there are {', '.join(known)}{nearest(name, known)}"
            )


def save_demonstrations(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an ``.npz``."""
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # numpy's stub reads a flag into the names


def _observations(path: Path, arrays: Mapping[str, Array], layout: Layout, rows: int) -> dict[str, Array]:
    found = {}
    for leaf in layout.leaves:
        name = f"observation/{leaf.name}"
        if name not in arrays and len(layout.leaves) == 1:
            name = "observation"
        if name not in arrays:
            hint = nearest(name, list(arrays))
            raise ConfigError(f"{path}: the env's observation {leaf.name!r} is missing, as an array {name!r}{hint}")
        array = arrays[name]
        if array.ndim <= 2 and array.size == rows * int(np.prod(leaf.shape)):
            array = array.reshape(rows, *leaf.shape)  # a file of columns has no other axes
        if array.shape[1:] != leaf.shape:
            raise ConfigError(f"{path}: {name} has rows of shape {array.shape[1:]}, the env's have {leaf.shape}")
        _require_values(path, name, array, leaf)
        try:
            found[leaf.name] = leaf.as_raw(array)
        except ValueError as reason:
            raise ConfigError(f"{path}: {name} {reason}") from None
    return found


def _require_values(path: Path, name: str, array: Array, leaf: Leaf) -> None:
    """Codes and pixels are whole numbers within their bounds; float numbers may be beyond those of their space, as
    those of an env may."""
    bounds = code_bounds(leaf)
    if bounds is None and leaf.dtype.kind != "f":
        bounds = np.iinfo(leaf.dtype).min, np.iinfo(leaf.dtype).max
    if bounds is None:
        return
    low, high = bounds
    wrong = (array < low) | (array > high) | (array != np.floor(array))
    if wrong.any():
        row = int(np.argwhere(wrong.reshape(len(array), -1).any(1))[0, 0])
        raise ConfigError(f"{path}: {name} is {array[row].tolist()} in row {row}, which is not in {leaf.space}")


def _stored(path: Path, action: Array, space: spaces.Space[Any], family: Family, distribution: str) -> Array:
    """Actions of the env as the policy stores them."""
    if isinstance(space, spaces.Box):
        return _stored_box(path, action, space, distribution)
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise ConfigError(
            f"imitation.demonstrations are for Discrete, MultiDiscrete, MultiBinary and Box actions, not {space}; "
            "without them the term imitates the agent's own rollouts, whatever its actions are"
        )
    shape = space.shape or ()
    if action.size != len(action) * int(np.prod(shape)):
        raise ConfigError(f"{path}: action has rows of shape {action.shape[1:]}, the env's have {shape}")
    n: Any = 2
    start: Any = 0
    if not isinstance(space, spaces.MultiBinary):
        n, start = (space.n if isinstance(space, spaces.Discrete) else space.nvec), space.start
    first = action.reshape(len(action), *shape) - start
    wrong = (first < 0) | (first >= n) | (first != np.floor(first))
    if wrong.any():
        row = int(np.argwhere(wrong.reshape(len(action), -1).any(1))[0, 0])
        raise ConfigError(f"{path}: the action {action[row]} of row {row} is not in {space}")
    stored: Array = first.astype(np.int64).reshape(len(action), *family.action_shape)
    return stored


def _stored_box(path: Path, action: Array, space: spaces.Box, distribution: str) -> Array:
    if distribution not in ("auto", "gaussian", "tanh_gaussian", "beta"):
        raise ConfigError(
            f"imitation.demonstrations: how policy.distribution = {distribution!r} stores an action of the env is not "
            "known; without them the term imitates the agent's own rollouts"
        )
    codec = BoxCodec(space) if distribution in ("auto", "gaussian") else BoundedBoxCodec(space)
    if action.size != len(action) * codec.n_dims:
        raise ConfigError(f"{path}: action has rows of shape {action.shape[1:]}, the env's have {space.shape}")
    flat = action.reshape(len(action), -1).astype(np.float64)
    low, high = (bound.reshape(-1).astype(np.float64) for bound in (space.low, space.high))
    slack = 1e-5 * np.where(np.isfinite(high - low), high - low, 1.0)
    outside = ((flat < low - slack) | (flat > high + slack)).any(1)
    if outside.any():
        row = int(np.argmax(outside))
        raise ConfigError(f"{path}: the action {action[row]} of row {row} is outside of {space}")
    if distribution in ("auto", "gaussian"):
        return ((flat - codec.centre) / codec.half_width).astype(np.float32)
    unit = np.clip((flat - low) / (high - low), EDGE, 1.0 - EDGE)
    return (np.arctanh(2.0 * unit - 1.0) if distribution == "tanh_gaussian" else unit).astype(np.float32)


def _masks(path: Path, arrays: Mapping[str, Array], family: Family) -> Array | None:
    """Flat or conditional masks, as an env may give them."""
    if "mask" not in arrays:
        return None
    if not isinstance(family, FactoredFamily):
        raise ConfigError(f"{path}: mask is for choices among n, which these actions are not: leave it out")
    rows = len(arrays["mask"])
    try:
        mask = family.form.read(arrays["mask"].reshape(rows, -1), rows, f"{path}: mask")
    except EnvError as error:
        raise ConfigError(str(error)) from None
    dead = family.dead_end(mask)
    if dead is not None:
        raise ConfigError(f"{path}: the mask of row {dead[0]} leaves no legal choice{dead[1]}")
    return mask


def _first_illegal(action: Array, mask: Array, family: Family) -> int | None:
    """An action that its own mask forbids has probability 0 under every policy."""
    uniform = family.bind(torch.zeros(len(action), family.n_parameters), torch.from_numpy(mask))
    illegal = uniform.log_prob(torch.from_numpy(action)).exp() == 0.0
    return int(illegal.nonzero()[0, 0]) if illegal.any() else None


def _returns(arrays: Mapping[str, Array], gamma: float) -> Array | None:
    """What follows each step, within its episode; without ``episode_start`` all rows are one."""
    if "reward" not in arrays:
        return None
    reward = arrays["reward"].astype(np.float64).reshape(-1)
    starts = arrays["episode_start"].astype(np.bool_).reshape(-1) if "episode_start" in arrays else None
    returns = np.zeros_like(reward)
    following = 0.0
    for i in range(len(reward) - 1, -1, -1):
        following = reward[i] + gamma * following
        returns[i] = following
        if starts is not None and starts[i]:
            following = 0.0
    return returns


def as_tensors(demonstrations: Demonstrations, device: torch.device) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Actions and masks."""
    mask = demonstrations.mask
    return (
        torch.from_numpy(demonstrations.action).to(device),
        None if mask is None else torch.from_numpy(mask).to(device),
    )
