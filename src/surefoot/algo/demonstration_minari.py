"""Arrays out of a Minari data set that lies on this machine, in Minari's HDF5 format.

The file itself is read, not by way of `minari.load_dataset`: that makes the env which a data set names if a space is
missing, and believes the sizes that its metadata say. Here nothing is executed, downloaded or taken on trust.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.algo.demonstration_files import refuse_above_limit
from surefoot.errors import ConfigError
from surefoot.spaces import Array, Layout

if TYPE_CHECKING:
    import h5py

PREFIX = "minari:"
"""``minari:namespace/name-v0`` in place of a file."""


def read_minari(source: str, layout: Layout) -> dict[str, Array]:
    """What the env observes, actions, rewards and where episodes start; a `ConfigError` says what cannot be read."""
    try:
        import h5py
    except ImportError:
        raise ConfigError(
            f"imitation.demonstrations = {source!r} needs Minari and h5py: pip install 'surefoot[minari]'"
        ) from None
    path = file_of(source)
    try:
        with h5py.File(path, "r") as file:
            return _arrays(source, _columns(file, layout))
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise ConfigError(f"{source}: {path} cannot be read as Minari's HDF5: {error}") from None


def file_of(source: str) -> Path:
    """The file that holds a data set."""
    name = source.removeprefix(PREFIX)
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")
    folder = root / name
    if not name or not folder.is_dir():
        raise ConfigError(
            f"imitation.demonstrations = {source!r}: no data set at {folder}; `minari download {name}` gets one, and "
            "MINARI_DATASETS_PATH says where they are"
        )
    path = folder / "data" / "main_data.hdf5"
    if not path.is_file():
        raise ConfigError(f"{source}: only data sets in Minari's HDF5 format are read, and there is no {path}")
    return path


def _columns(file: h5py.File, layout: Layout) -> dict[str, list[h5py.Dataset]]:
    """For each array that is wanted, the part of it that each episode holds."""
    paths = {f"observation/{leaf.name}": ["observations", *map(_key, leaf.path)] for leaf in layout.leaves}
    paths |= {"action": ["actions"], "reward": ["rewards"]}
    found: dict[str, list[h5py.Dataset]] = {name: [] for name in paths}
    number = 0
    while (episode := f"episode_{number}") in file:
        for name, path in paths.items():
            found[name].append(_dataset(file, [episode, *path]))
        number += 1
    beyond = [
        name for name in file if name.startswith("episode_") and name not in {f"episode_{i}" for i in range(number)}
    ]
    if beyond:
        raise ValueError(f"there is {beyond[0]}, but no episode_{number}: some were taken out, and it is not known why")
    return found


def _key(part: str | int) -> str:
    """How Minari calls a key of a Dict, or a position of a Tuple."""
    return f"_index_{part}" if isinstance(part, int) else part


def _dataset(file: h5py.File, path: list[str]) -> h5py.Dataset:
    """Follows no link to another place or file."""
    import h5py

    found: Any = file
    for key in path:
        inside = isinstance(found, h5py.Group) and isinstance(found.get(key, getlink=True), h5py.HardLink)
        if not inside:
            raise ValueError(f"there is no {'/'.join(path)} in it")
        found = found[key]
    if not isinstance(found, h5py.Dataset):
        raise ValueError(f"{'/'.join(path)} is of several parts, and the env's is one array")
    if found.is_virtual or found.external:
        raise ValueError(f"{'/'.join(path)} lies in another file, and no other is read")
    if found.dtype.kind not in "biuf":
        raise ValueError(
            f"{'/'.join(path)} has dtype {found.dtype}, which are no numbers (images can be stored with "
            "jpeg_encoding=False)"
        )
    return found


def _arrays(source: str, columns: Mapping[str, list[h5py.Dataset]]) -> dict[str, Array]:
    """All episodes, one after the other, once it is known how large they are."""
    refuse_above_limit(source, sum(part.nbytes for parts in columns.values() for part in parts))
    lengths = [len(part) for part in columns["action"]]
    starts = [np.arange(length) == 0 for length in lengths]
    found = {"episode_start": np.concatenate([np.zeros(0, np.bool_), *starts])}
    for name, parts in columns.items():
        extra = name.startswith("observation/")  # the last one is that after the last step
        for number, (part, length) in enumerate(zip(parts, lengths, strict=True)):
            if part.ndim == 0 or len(part) != length + extra:
                raise ValueError(f"episode {number} has {length} actions and {name} of shape {part.shape}")
        if parts:
            found[name] = np.concatenate([part[:length] for part, length in zip(parts, lengths, strict=True)])
    return found
