"""Named observation leaves -> one feature vector."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from gymnasium import spaces
from torch import Tensor, nn

from surefoot.config import PolicyConfig
from surefoot.nets.cnn import CNN
from surefoot.nets.init import Initializer
from surefoot.nets.mlp import MLP
from surefoot.spaces import Layout, Leaf


class Flat(nn.Module):
    """Numbers as they are, [B, ...] -> [B, n]."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.n_outputs = math.prod(shape)

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.n_outputs).to(torch.float32)


class OneHot(nn.Module):
    """Integer codes as indicator vectors, [B] or [B, ...] -> [B, sum of categories]."""

    def __init__(self, categories: list[int], starts: list[int]) -> None:
        super().__init__()
        self._categories, self._starts = categories, starts
        self.n_outputs = sum(categories)

    def forward(self, x: Tensor) -> Tensor:
        columns = x.reshape(x.shape[0], len(self._categories)).unbind(1)
        # Not F.one_hot, which looks at the values on the host, so that no gradient step with it can be recorded.
        coded = [
            (c - s).unsqueeze(1) == torch.arange(n, device=x.device)
            for c, n, s in zip(columns, self._categories, self._starts, strict=True)
        ]
        return torch.cat(coded, 1).to(torch.float32)


class Encoder(nn.Module):
    """A sub-encoder for each leaf, concatenated, then the hidden layers."""

    def __init__(self, layout: Layout, config: PolicyConfig, init: Initializer) -> None:
        super().__init__()
        self._names = [leaf.name for leaf in layout.leaves]
        encoders = [_leaf_encoder(leaf, config, init) for leaf in layout.leaves]
        self.leaves = nn.ModuleList(encoders)
        width = sum(encoder.n_outputs for encoder in encoders)
        self.trunk = MLP(width, config.hidden_sizes, config.activation, config.layer_norm, init)
        self.n_outputs = self.trunk.n_outputs

    def forward(self, observation: Mapping[str, Tensor]) -> Tensor:
        parts = [encoder(observation[name]) for name, encoder in zip(self._names, self.leaves, strict=True)]
        features: Tensor = self.trunk(parts[0] if len(parts) == 1 else torch.cat(parts, 1))
        return features


def _leaf_encoder(leaf: Leaf, config: PolicyConfig, init: Initializer) -> Flat | OneHot | CNN:
    if isinstance(leaf.space, spaces.Discrete):
        return OneHot([int(leaf.space.n)], [int(leaf.space.start)])
    if isinstance(leaf.space, spaces.MultiDiscrete):
        return OneHot(leaf.space.nvec.reshape(-1).tolist(), leaf.space.start.reshape(-1).tolist())
    if leaf.is_image:
        return CNN(leaf.shape, config.cnn_channels, config.cnn_features, init)
    return Flat(leaf.shape)
