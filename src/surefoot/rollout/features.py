"""Which features of the observation an adversary may change."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from surefoot.actions.heads import nearest
from surefoot.errors import ConfigError
from surefoot.spaces import Layout


def attackable_features(layout: Layout, fixed: Sequence[str]) -> dict[str, Tensor]:
    """1 where a feature may be changed, by leaf of float numbers; ``fixed`` names leaves, or ``leaf:i`` one entry of a
    flattened leaf. With one leaf only ``i`` is enough."""
    found = {leaf.name: torch.ones(leaf.shape) for leaf in layout.leaves if leaf.is_continuous}
    if not found:
        raise ConfigError("robust: the env's observations hold no float numbers that could be perturbed")
    for text in fixed:
        name, colon, number = text.rpartition(":")
        if not colon:
            name, number = (next(iter(found)), text) if text.isdecimal() and len(found) == 1 else (text, "")
        if name not in found:
            raise ConfigError(
                f"robust.fixed_features: the observation has no float feature {text!r} (there are "
                f"{', '.join(found)}){nearest(name, list(found))}"
            )
        if not number:
            found[name].zero_()
        elif not number.isdecimal() or int(number) >= found[name].numel():
            raise ConfigError(
                f"robust.fixed_features: {text!r}: {name!r} has the entries 0 to {found[name].numel() - 1}"
            )
        else:
            found[name].view(-1)[int(number)] = 0.0
    if not any(bool(x.any()) for x in found.values()):
        raise ConfigError("robust.fixed_features leaves no feature that may be perturbed")
    return {name: x for name, x in found.items() if bool(x.any())}
