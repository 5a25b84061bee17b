"""The contract of encoders: ours, and one of a caller's own, on every kind of observation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from surefoot.config import PolicyConfig
from surefoot.nets.init import Initializer
from surefoot.policy.encoder import Encoder
from surefoot.policy.own_encoder import OwnEncoder
from surefoot.spaces import Layout

B = 5
NUMBERS = spaces.Box(-1.0, 1.0, (3,), np.float32)
SPACES: dict[str, spaces.Space[Any]] = {
    "numbers": NUMBERS,
    "codes": spaces.Discrete(4, start=2),
    "several codes": spaces.MultiDiscrete([2, 3]),
    "image": spaces.Box(0, 255, (3, 36, 36), np.uint8),
    "dict": spaces.Dict({"position": NUMBERS, "kind": spaces.Discrete(3)}),
}


class OneLayer(nn.Module):
    """A caller's own: one layer over the numbers of all leaves."""

    n_outputs = 7

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self._names = [leaf.name for leaf in layout.leaves]
        self.layer = nn.Linear(sum(int(np.prod(leaf.shape)) for leaf in layout.leaves), self.n_outputs)

    def forward(self, observation: Mapping[str, Tensor]) -> Tensor:
        numbers = [observation[name].reshape(len(observation[name]), -1).float() for name in self._names]
        out: Tensor = self.layer(torch.cat(numbers, 1))
        return out


def build(kind: str, layout: Layout) -> Encoder | OwnEncoder:
    if kind == "ours":
        return Encoder(layout, PolicyConfig(), Initializer(torch.Generator().manual_seed(0)))
    own = OwnEncoder(OneLayer, layout)
    own.check(layout)
    return own


def observation(space: spaces.Space[Any], layout: Layout) -> dict[str, Tensor]:
    space.seed(0)
    rows = [layout.split(space.sample()) for _ in range(B)]
    return {leaf.name: torch.from_numpy(np.stack([row[leaf.name] for row in rows])) for leaf in layout.leaves}


every_encoder = pytest.mark.parametrize("kind", ["ours", "own"])
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


@every_encoder
@every_space
def test_features_are_finite_numbers_of_the_width_that_is_promised(kind: str, space: spaces.Space[Any]) -> None:
    layout = Layout.of(space)
    encoder = build(kind, layout)
    features = encoder(observation(space, layout))
    assert features.shape == (B, encoder.n_outputs)
    assert features.dtype == torch.float32
    assert torch.isfinite(features).all()


@every_encoder
@every_space
def test_a_row_does_not_see_the_others(kind: str, space: spaces.Space[Any]) -> None:
    layout = Layout.of(space)
    encoder, seen = build(kind, layout), observation(space, layout)
    alone = [encoder({name: x[i : i + 1] for name, x in seen.items()}) for i in range(B)]
    torch.testing.assert_close(torch.cat(alone), encoder(seen), rtol=1e-4, atol=1e-4)


@every_encoder
@every_space
def test_every_parameter_learns(kind: str, space: spaces.Space[Any]) -> None:
    layout = Layout.of(space)
    encoder = build(kind, layout)
    encoder(observation(space, layout)).square().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
