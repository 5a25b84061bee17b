"""The parts of a policy as the compiled network sees them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from surefoot.fast.kernel import GRU, LANES, LSTM, NO_CELL, RELU, TANH, Linear, Network, panels
from surefoot.policy.encoder import Encoder
from surefoot.policy.recurrent import Recurrent

Array = NDArray[Any]


class CompiledNetwork:
    """Encoder, memory and output (each may be missing); weights are copied, so it is made anew after each change of
    them."""

    def __init__(self, encoder: Encoder | None, memory: Recurrent | None, output: nn.Linear | None) -> None:
        self._kept: list[Any] = []  # what the compiled side only has addresses of
        before: list[nn.Module] = [] if encoder is None else [*encoder.trunk.layers]
        after: list[nn.Module] = [] if memory is None or output is None else [*memory.top.layers]
        layers, later = self._linears(before), self._linears(after)
        network = Network(
            layers=layers,
            n_layers=len(layers),
            activation=RELU if any(isinstance(x, nn.ReLU) for x in before + after) else TANH,
            cell=NO_CELL,
            later=later,
            n_later=len(later),
        )
        widths = [layer.width for layer in (*layers, *later)]
        if memory is not None:
            widths += self._add_cell(network, memory)
        if output is not None:
            linear = self._linear(output.weight, output.bias)
            network.output, network.n_outputs = ctypes.pointer(linear), output.out_features
            widths.append(linear.width)
        network.widest = max(widths, default=0)
        self.network = network

    def _add_cell(self, network: Network, memory: Recurrent) -> Sequence[int]:
        cell = memory.cell
        is_lstm = isinstance(cell, nn.LSTM)
        network.cell, network.hidden_size = LSTM if is_lstm else GRU, cell.hidden_size
        bias = cell.bias_ih_l0 + cell.bias_hh_l0 if is_lstm else cell.bias_ih_l0
        network.into = self._linear(cell.weight_ih_l0, bias)
        network.within = self._address_of(_array(panels(cell.weight_hh_l0.t())))
        network.within_bias = self._address_of(_array(cell.bias_hh_l0))
        norm = memory.norm
        network.scale, network.shift = (self._address_of(_array(x)) for x in (norm.weight, norm.bias))
        network.eps = norm.eps
        return [network.into.width]

    def _linears(self, layers: Sequence[nn.Module]) -> Any:
        """The linear ones as an array of the compiled side."""
        found = [self._linear(layer.weight, layer.bias) for layer in layers if isinstance(layer, nn.Linear)]
        return (Linear * len(found))(*found)

    def _linear(self, weight: Any, bias: Any) -> Linear:
        n_outputs, n_inputs = weight.shape
        width = -(-n_outputs // LANES) * LANES
        padded, shifts = torch.zeros(n_inputs, width), np.zeros(width, np.float32)
        padded[:, :n_outputs], shifts[:n_outputs] = weight.detach().t(), _array(bias)
        return Linear(self._address_of(_array(panels(padded))), self._address_of(shifts), n_inputs, width)

    def _address_of(self, array: Array) -> int:
        kept = np.ascontiguousarray(array, np.float32)
        self._kept.append(kept)
        return int(kept.ctypes.data)


def _array(parameter: Any) -> Array:
    found: Array = parameter.detach().numpy()
    return found
