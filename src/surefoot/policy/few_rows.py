"""The actor on a few rows at a time, in numpy.

With eight envs the time of acting is that of calling operations, not that of computing, and numpy's calls cost a
fraction of torch's. Same weights, as views, and same formula as `Policy.action_parameters`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from surefoot.policy.encoder import Flat
from surefoot.policy.policy import Policy

Array = NDArray[Any]
MOST_PRODUCTS = 1 << 18
"""Multiplications of a layer. With more of them torch is as fast, and numpy's BLAS would start threads of its own."""


class FewRows:
    """Observations [N, ...] -> action parameters [N, P], for a plain MLP on the CPU."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._steps: list[tuple[Array, Array] | nn.Module] = []
        self.refresh()

    @classmethod
    def of(cls, policy: Policy, n_rows: int) -> FewRows | None:
        """None if the policy is of another kind, or has too much to compute."""
        leaves, layers = list(policy.encoder.leaves), [*policy.encoder.trunk.layers, policy.head.linear]
        plain = policy.memory is None and len(leaves) == 1 and isinstance(leaves[0], Flat)
        if not plain or not all(isinstance(layer, nn.Linear | nn.Tanh | nn.ReLU) for layer in layers):
            return None
        weights = [layer.weight for layer in layers if isinstance(layer, nn.Linear)]
        on_host = all(weight.device.type == "cpu" for weight in weights)
        small = all(n_rows * weight.numel() <= MOST_PRODUCTS for weight in weights)
        return cls(policy) if on_host and small else None

    def refresh(self) -> None:
        """Look at the weights where they lie now."""
        layers = [*self._policy.encoder.trunk.layers, self._policy.head.linear]
        self._steps = [
            (_view(layer.weight).T, _view(layer.bias)) if isinstance(layer, nn.Linear) else layer for layer in layers
        ]
        free = self._policy.head.free
        self._free = None if free is None else _view(free)

    def __call__(self, observation: Array, out: Array) -> None:
        """Write the parameters into ``out``."""
        x = observation.reshape(len(observation), -1).astype(np.float32, copy=False)
        for step in self._steps:
            if isinstance(step, tuple):
                x = x @ step[0]
                x += step[1]
            elif isinstance(step, nn.Tanh):
                np.tanh(x, out=x)
            else:
                np.maximum(x, 0.0, out=x)
        if self._free is None:
            out[:] = x
        else:
            out[:, : x.shape[1]] = x
            out[:, x.shape[1] :] = self._free


def _view(parameter: Tensor) -> Array:
    return parameter.detach().numpy()
