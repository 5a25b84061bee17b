"""Observations of every space become one feature vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from surefoot.config import PolicyConfig
from surefoot.errors import UnsupportedSpaceError
from surefoot.nets.init import Initializer
from surefoot.policy.encoder import Encoder
from surefoot.spaces import Layout

SMALL_CNN = {"cnn_channels": (4, 4, 4), "cnn_features": 8}
SPACES: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "box of rank 2": spaces.Box(-1, 1, (2, 3), np.float32),
    "box of rank 3": spaces.Box(-1, 1, (2, 2, 2), np.float64),
    "box without axes": spaces.Box(-1, 1, (), np.float32),
    "bytes that are no image": spaces.Box(0, 255, (6,), np.uint8),
    "discrete": spaces.Discrete(4),
    "discrete from -2": spaces.Discrete(4, start=-2),
    "multidiscrete": spaces.MultiDiscrete([2, 4]),
    "multidiscrete from (1, -1)": spaces.MultiDiscrete([2, 4], start=[1, -1]),
    "multidiscrete of rank 2": spaces.MultiDiscrete(np.array([[2, 3], [4, 2]])),
    "multibinary": spaces.MultiBinary(3),
    "multibinary of rank 2": spaces.MultiBinary([2, 2]),
    "image, channels last": spaces.Box(0, 255, (40, 44, 3), np.uint8),
    "image, channels first": spaces.Box(0, 255, (3, 40, 44), np.uint8),
    "small image": spaces.Box(0, 255, (16, 16, 1), np.uint8),
    "dict": spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)}),
    "tuple": spaces.Tuple((spaces.MultiBinary(2), spaces.Box(-1, 1, (2,)))),
    "nested": spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (3, 16, 16), np.uint8),
            "body": spaces.Tuple((spaces.Discrete(3, start=1), spaces.Dict({"joints": spaces.Box(-1, 1, (2, 2))}))),
        }
    ),
}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def encoder(space: spaces.Space[Any], seed: int = 0, **settings: Any) -> Encoder:
    config = PolicyConfig(**{**SMALL_CNN, "hidden_sizes": (16,), **settings})
    return Encoder(Layout.of(space), config, Initializer(generator(seed), config.ortho_init))


def samples(space: spaces.Space[Any], n: int, seed: int = 0) -> dict[str, Tensor]:
    """A batch of n observations, by leaf."""
    space.seed(seed)
    rows = [Layout.of(space).split(space.sample()) for _ in range(n)]
    return {name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in rows[0]}


@every_space
def test_features_are_a_matrix_of_float32(space: spaces.Space[Any]) -> None:
    net = encoder(space)
    features = net(samples(space, 5))
    assert features.shape == (5, net.n_outputs) == (5, 16)
    assert features.dtype == torch.float32


@every_space
def test_a_row_does_not_see_the_others(space: spaces.Space[Any]) -> None:
    net, batch = encoder(space), samples(space, 5)
    single = [net({name: x[i : i + 1] for name, x in batch.items()}) for i in range(5)]
    assert torch.allclose(torch.cat(single), net(batch), atol=1e-5)


@every_space
def test_every_leaf_can_be_told_apart(space: spaces.Space[Any]) -> None:
    net, batch, other = encoder(space), samples(space, 6, 0), samples(space, 6, 1)
    features = net(batch)
    for name in batch:
        changed = net(batch | {name: other[name]})
        differs = (
            (batch[name] != other[name]).flatten(1).any(1) if batch[name].dim() > 1 else batch[name] != other[name]
        )
        assert differs.any()
        assert (features - changed).abs().amax(1)[differs].min() > 1e-6


@every_space
def test_the_gradient_reaches_every_weight(space: spaces.Space[Any]) -> None:
    net = encoder(space, activation="tanh")
    net(samples(space, 32)).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def raw(space: spaces.Space[Any], observation: Any) -> list[float]:
    """What the hidden layers would see of one observation."""
    leaves = Layout.of(space).split(observation)
    net = encoder(space, hidden_sizes=())
    features: list[float] = net({name: torch.as_tensor(x)[None] for name, x in leaves.items()})[0].tolist()
    return features


@pytest.mark.parametrize(
    ("space", "observation", "expected"),
    [
        (spaces.Discrete(3), 1, [0, 1, 0]),
        (spaces.Discrete(3, start=-1), 1, [0, 0, 1]),
        (spaces.Discrete(3, start=5), 5, [1, 0, 0]),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 0]), [0, 1, 1, 0, 0]),
        (spaces.MultiDiscrete([2, 3], start=[1, -1]), np.array([1, 1]), [1, 0, 0, 0, 1]),
        (spaces.MultiDiscrete(np.array([[2], [2]])), np.array([[0], [1]]), [1, 0, 0, 1]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (spaces.Box(-9, 9, (2, 2), np.float32), np.array([[1, 2], [3, 4]]), [1, 2, 3, 4]),
        (spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-9, 9, (1,))}), {"a": [7.0], "b": 1}, [7, 0, 1]),
        (spaces.Tuple((spaces.Discrete(2), spaces.Box(-9, 9, (1,)))), (0, [7.0]), [1, 0, 7]),
    ],
)
def test_codes_become_indicators_and_numbers_stay(
    space: spaces.Space[Any], observation: Any, expected: list[int]
) -> None:
    found = raw(space, observation)
    if isinstance(space, spaces.Dict):  # gymnasium decides the order of keys
        found, expected = sorted(found), sorted(expected)
    assert found == expected


def test_both_orders_of_an_images_axes_give_the_same_features() -> None:
    last, first = SPACES["image, channels last"], SPACES["image, channels first"]
    images = samples(last, 4)["obs"]
    one = encoder(last)({"obs": images})
    two = encoder(first)({"obs": images.permute(0, 3, 1, 2)})
    assert torch.allclose(one, two, atol=1e-6)


def test_images_are_scaled_to_one() -> None:
    """Features of a white image are what a convolution of ones gives; bytes as they are would saturate the network."""
    net = encoder(SPACES["small image"], hidden_sizes=())
    (cnn,) = net.leaves
    white = torch.full((1, 16, 16, 1), 255, dtype=torch.uint8)
    expected = white.permute(0, 3, 1, 2).float() / 255.0
    for layer in (
        module for module in cnn.modules() if isinstance(module, nn.Conv2d | nn.Linear | nn.ReLU | nn.Flatten)
    ):
        expected = layer(expected)
    assert torch.allclose(net({"obs": white}), expected, atol=1e-6)


@pytest.mark.parametrize("side", [15, 16, 35, 36, 84])
def test_images_from_fifteen_pixels_on_are_seen(side: int) -> None:
    space = spaces.Box(0, 255, (side, side, 3), np.uint8)
    assert encoder(space)(samples(space, 2)).shape == (2, 16)


@pytest.mark.parametrize("shape", [(8, 8, 3), (84, 8, 3), (3, 10, 40)])
def test_an_image_too_small_for_the_convolutions_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedSpaceError, match=r"too small.*cnn_channels"):
        encoder(spaces.Box(0, 255, shape, np.uint8))


def test_fewer_convolutions_see_smaller_images() -> None:
    space = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    assert encoder(space, cnn_channels=(4, 4))(samples(space, 2)).shape == (2, 16)


@pytest.mark.parametrize(("n_in", "sizes"), [(3, (8, 8)), (64, (16, 32))])
def test_hidden_weights_are_orthogonal_with_gain_root_two(n_in: int, sizes: tuple[int, ...]) -> None:
    net = encoder(spaces.Box(-1, 1, (n_in,)), hidden_sizes=sizes)
    for layer in (module for module in net.modules() if isinstance(module, nn.Linear)):
        rows, columns = layer.weight.shape
        weight = layer.weight if rows <= columns else layer.weight.T
        assert torch.allclose(weight @ weight.T, 2.0 * torch.eye(min(rows, columns)), atol=1e-5)
        assert not layer.bias.any()


def test_convolutions_are_orthogonal_too() -> None:
    net = encoder(SPACES["small image"])
    for layer in (module for module in net.modules() if isinstance(module, nn.Conv2d)):
        weight = layer.weight.flatten(1)
        assert torch.allclose(weight @ weight.T, 2.0 * torch.eye(len(weight)), atol=1e-5)


def test_the_other_initialization_is_pytorchs_uniform() -> None:
    net = encoder(spaces.Box(-1, 1, (50,)), hidden_sizes=(400,), ortho_init=False)
    (layer,) = (module for module in net.modules() if isinstance(module, nn.Linear))
    bound = 1 / math.sqrt(50)
    for parameter in (layer.weight, layer.bias):
        assert 0.95 * bound < parameter.abs().max().item() <= bound
        assert parameter.mean().item() == pytest.approx(0.0, abs=0.1 * bound)


@every_space
@pytest.mark.parametrize("ortho_init", [True, False])
def test_equal_generators_give_equal_weights(space: spaces.Space[Any], ortho_init: bool) -> None:
    one, two, other = (encoder(space, seed, ortho_init=ortho_init) for seed in (0, 0, 1))
    for left, right in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(left, right)
    assert any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_layer_norm_stands_between_linear_and_activation() -> None:
    """O10."""
    net = encoder(spaces.Box(-1, 1, (3,)), hidden_sizes=(8, 8), layer_norm=True, activation="relu")
    kinds = [type(module) for module in net.modules()]
    layers = [kind for kind in kinds if kind in (nn.Linear, nn.LayerNorm, nn.ReLU)]
    assert layers == [nn.Linear, nn.LayerNorm, nn.ReLU] * 2


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu", "gelu"])
def test_the_activation_is_used(activation: str) -> None:
    net = encoder(spaces.Box(-1, 1, (3,)), hidden_sizes=(8,), activation=activation)
    (layer,) = (module for module in net.modules() if isinstance(module, nn.Linear))
    x = samples(spaces.Box(-1, 1, (3,)), 5)["obs"]
    expected = getattr(torch.nn.functional, activation)(layer(x)) if activation != "tanh" else torch.tanh(layer(x))
    assert torch.allclose(net({"obs": x}), expected, atol=1e-6)
