"""Corrupt checkpoints: damage the newest one at random; it must be named and the one before it used."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.samples import is_sample, save_sample, workspace
from surefoot.store import CheckpointStore

FILES = ("tensors.safetensors", "state.json", "manifest.json")
Damage = Callable[[Path, Path, random.Random], None]


def _change(path: Path, change: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    before = bytes(data)
    change(data)
    assert bytes(data) != before
    path.write_bytes(data)


def flip_bit(newest: Path, older: Path, chance: random.Random) -> None:
    """One bit of one file."""

    def flip(data: bytearray) -> None:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)

    _change(newest / chance.choice(FILES), flip)


def overwrite_block(newest: Path, older: Path, chance: random.Random) -> None:
    """A block of zeros, as a lost sector leaves it."""

    def overwrite(data: bytearray) -> None:
        start = chance.choice([i for i, octet in enumerate(data) if octet])
        length = min(chance.randrange(1, 65), len(data) - start)
        data[start : start + length] = bytes(length)

    _change(newest / chance.choice(FILES), overwrite)


def truncate(newest: Path, older: Path, chance: random.Random) -> None:
    """Any shorter length, also 0."""
    path = newest / chance.choice(FILES)
    _change(path, lambda data: data.__delitem__(slice(chance.randrange(len(data)), None)))


def append(newest: Path, older: Path, chance: random.Random) -> None:
    """A few bytes more, also white space that a parser would pass over."""
    path = newest / chance.choice(FILES)
    tail = chance.choice([b" ", b"\n", b"\0", chance.randbytes(9)])
    _change(path, lambda data: data.extend(tail))


def remove_file(newest: Path, older: Path, chance: random.Random) -> None:
    """One file, or all three."""
    for name in chance.choice([[name] for name in FILES] + [list(FILES)]):
        (newest / name).unlink()


def swap_with_older(newest: Path, older: Path, chance: random.Random) -> None:
    """One or two files of the older checkpoint in the place of the newest's."""
    for name in chance.sample(FILES, chance.choice([1, 2])):
        shutil.copyfile(older / name, newest / name)


def swap_within(newest: Path, older: Path, chance: random.Random) -> None:
    """Two files of one checkpoint under each other's names."""
    one, two = chance.sample(FILES, 2)
    (newest / one).rename(newest / "third")
    (newest / two).rename(newest / one)
    (newest / "third").rename(newest / two)


def wrong_step(newest: Path, older: Path, chance: random.Random) -> None:
    """A whole checkpoint under the name of another step."""
    shutil.rmtree(newest)
    shutil.copytree(older, newest)


DAMAGES: list[tuple[Damage, int]] = [
    (flip_bit, 8),
    (truncate, 4),
    (overwrite_block, 2),
    (append, 2),
    (swap_with_older, 2),
    (swap_within, 1),
    (remove_file, 2),
    (wrong_step, 1),
]


def corrupt_newest(n: int = 1000, seed: int = 0) -> dict[str, Any]:
    """Damage the newest of two checkpoints `n` times, each time anew."""
    chance = random.Random(seed)
    kinds, weights = zip(*DAMAGES, strict=True)
    tried: Counter[str] = Counter()
    detected = 0
    failures: list[str] = []
    with workspace() as place:
        prepared = place / "prepared"
        save_sample(prepared, 1, 1)
        save_sample(prepared, 2, 2)
        root = place / "trial"
        shutil.copytree(prepared, root)
        older, newest = (CheckpointStore(root).path_of(step) for step in (1, 2))
        for trial in range(n):
            shutil.rmtree(newest, ignore_errors=True)
            shutil.copytree(prepared / newest.name, newest)
            damage = chance.choices(kinds, weights)[0]
            tried[damage.__name__] += 1
            damage(newest, older, chance)
            problem = _problem(root, older, newest)
            detected += problem is None
            if problem:
                failures.append(f"trial {trial}, {damage.__name__}: {problem}")
    return {"corruptions": n, "detected": detected, "kinds": dict(tried), "failures": failures[:5]}


def _problem(root: Path, older: Path, newest: Path) -> str | None:
    """What is wrong with the answer of the store, if anything."""
    try:
        found = CheckpointStore(root).latest()
    except Exception as error:
        return repr(error)
    if found.path != older or not is_sample(found.snapshot, 1):
        return f"it used {found.path.name}"
    if [path for path, _ in found.skipped] != [newest] or not found.skipped[0][1]:
        return f"it named {found.skipped}"
    return None
