"""Which features of the observation an adversary may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from surefoot.actions.heads import nearest
from surefoot.errors import ConfigError
from surefoot.spaces import Layout


def attackable_features(layout: Layout, fixed: Sequence[str], columns: Sequence[str] = ()) -> dict[str, Tensor]:
    """1 where a feature may be changed, by leaf of float numbers; ``fixed`` is as `entries_of` reads it."""
    found = {leaf.name: torch.ones(leaf.shape) for leaf in layout.leaves if leaf.is_continuous}
    if not found:
        raise ConfigError("robust: the env's observations hold no float numbers that could be perturbed")
    for text in fixed:
        name, entries = entries_of(text, {name: x.numel() for name, x in found.items()}, columns)
        found[name].view(-1)[entries] = 0.0
    if not any(bool(x.any()) for x in found.values()):
        raise ConfigError("fixed_features leaves no feature that may be perturbed")
    return {name: x for name, x in found.items() if bool(x.any())}


def entries_of(text: str, sizes: Mapping[str, int], columns: Sequence[str] = ()) -> tuple[str, list[int]]:
    """Which entries of which flattened leaf are meant: a leaf is all of its own, ``leaf:i`` is one.

    With one leaf only, ``i`` is enough, and so is one of the ``columns`` that the env names; without its ``[-i]`` it is
    that feature at every step of a window.
    """
    if text in sizes:
        return text, list(range(sizes[text]))
    only = next(iter(sizes))
    named = [i for i, column in enumerate(columns) if column == text or column.rpartition("[")[0] == text]
    if named and len(sizes) == 1:
        return only, named
    name, colon, number = text.rpartition(":")
    if not colon and len(sizes) == 1:
        name, number = only, text
    if name not in sizes or not number.isdecimal():
        known = list(dict.fromkeys([*sizes, *(column.partition("[")[0] for column in columns)]))
        raise ConfigError(
            f"fixed_features: the observation has no float feature {text!r} (there are {', '.join(known)})"
            f"{nearest(text, known)}{'' if columns else '; where the env does not say its own names, give the index'}"
        )
    if int(number) >= sizes[name]:
        raise ConfigError(f"fixed_features: {text!r}: {name!r} has the entries 0 to {sizes[name] - 1}")
    return name, [int(number)]
