"""Weight initialization from an explicit generator; the global RNG is never touched."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor, nn

HIDDEN_GAIN = math.sqrt(2)
POLICY_GAIN = 0.01
VALUE_GAIN = 1.0

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


class Initializer:
    """Fills a layer's weights: orthogonal with the given gain, or uniform(±1/√fan_in) as PyTorch does."""

    def __init__(self, generator: torch.Generator, orthogonal: bool = True) -> None:
        self._generator = generator
        self._orthogonal = orthogonal

    def __call__(self, layer: Layer, gain: float = HIDDEN_GAIN) -> Layer:
        """Initialize in place and return the layer; one on the meta device has only a shape."""
        if layer.weight.is_meta:
            return layer
        if self._orthogonal:
            nn.init.orthogonal_(layer.weight, gain, generator=self._generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
            return layer
        bound = 1 / math.sqrt(layer.weight[0].numel())
        for parameter in (layer.weight, layer.bias):
            if parameter is not None:
                self.uniform(parameter, bound)
        return layer

    def matrix(self, weight: Tensor) -> None:
        """Fill one weight matrix: orthogonal with gain 1, or uniform(±1/√fan_in)."""
        if weight.is_meta:
            return
        if self._orthogonal:
            nn.init.orthogonal_(weight, generator=self._generator)
        else:
            self.uniform(weight, 1 / math.sqrt(weight.shape[1]))

    def uniform(self, tensor: Tensor, bound: float) -> None:
        """Fill with uniform(−bound, bound)."""
        if tensor.is_meta:
            return
        with torch.no_grad():
            tensor.uniform_(-bound, bound, generator=self._generator)
