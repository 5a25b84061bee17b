"""LSTM and GRU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from surefoot.config import MemoryConfig
from surefoot.nets.init import Initializer
from surefoot.nets.mlp import MLP
from surefoot.policy.memory import Memory, SequenceBatch

Scan = Callable[[Any, Tensor, Tensor, Tensor, Tensor], Tensor]
"""Cell, features [B, F] of sequences one after the other, states [M, n], which state each sequence starts from [S], and
the length of each [S] -> outputs [B, H]."""
NORM_GAIN = 0.1
"""Size of the features that a fresh memory hands on. With features of size 1, one step of Adam changes all logits
several times as much as behind a small network, and noise drives the policy about when little is left to learn."""


class Recurrent(Memory):
    """LSTM or GRU, LayerNorm (M05), perhaps hidden layers: orthogonal weights, zero biases, forget-gate bias 1.

    With ``span``, the gates that keep the state have biases ln u, u uniform in [1, span − 1], and those that let input
    in −ln u: units that forget half-way after about u steps (Tallec and Ollivier 2018, https://arxiv.org/abs/1804.11188).
    """

    def __init__(self, n_inputs: int, config: MemoryConfig, activation: str, init: Initializer) -> None:
        super().__init__()
        cell = {"lstm": nn.LSTM, "gru": nn.GRU}[config.kind]
        self._is_lstm = config.kind == "lstm"
        self._layers, self._width = config.layers, config.hidden_size
        self.cell = cell(n_inputs, config.hidden_size, config.layers, batch_first=True)
        self.norm = nn.LayerNorm(config.hidden_size)
        nn.init.constant_(self.norm.weight, NORM_GAIN)
        self.state_size = config.layers * config.hidden_size * (2 if self._is_lstm else 1)
        self.hidden = slice((config.layers - 1) * config.hidden_size, config.layers * config.hidden_size)
        self.scan: Scan | None = None
        """Loops over time that stand in for torch's, if there are faster ones."""
        self._initialize(init, config.span)
        self.top = MLP(config.hidden_size, config.output_sizes, activation, False, init)
        self.n_outputs = self.top.n_outputs

    def step(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Of one layer by torch's cell, which takes a third of the time that its loop over one step does."""
        if self._layers > 1:
            return super().step(features, state)
        weights = [getattr(self.cell, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        if self._is_lstm:
            hidden, carry = torch.lstm_cell(features, state.chunk(2, 1), *weights)
            return self.finish(hidden), torch.cat([hidden, carry], 1)
        hidden = torch.gru_cell(features, state, *weights)
        return self.finish(hidden), hidden

    def rows(self, features: Tensor, sequences: SequenceBatch, own: slice) -> Tensor:
        if self.scan is None:
            return super().rows(features, sequences, own)
        return self.finish(self.scan(self.cell, features, sequences.states[:, own], sequences.first, sequences.length))

    def sequences(self, features: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        parts = start.view(start.shape[0], -1, self._width).transpose(0, 1).contiguous()
        if self._is_lstm:
            outputs, (hidden, carry) = self.cell(features, (parts[: self._layers], parts[self._layers :]))
            after = torch.cat([hidden, carry])
        else:
            outputs, after = self.cell(features, parts)
        return self.finish(outputs), after.transpose(0, 1).reshape(start.shape)

    def finish(self, hidden: Tensor) -> Tensor:
        finished: Tensor = self.top(self.norm(hidden))
        return finished

    def _initialize(self, init: Initializer, span: int | None) -> None:
        width = self._width
        for name, parameter in self.cell.named_parameters():
            if name.startswith("weight"):
                for gate in parameter.data.split(width):
                    init.matrix(gate)
            else:
                nn.init.zeros_(parameter)
                if name.startswith("bias_ih"):
                    self._set_times(parameter.data, init, span)

    def _set_times(self, bias: Tensor, init: Initializer, span: int | None) -> None:
        """Gates are stored as input, forget, cell, output (LSTM); reset, keep, new (GRU)."""
        admit, keep = bias[: self._width], bias[self._width : 2 * self._width]
        if span is None:
            keep.fill_(1.0 if self._is_lstm else 0.0)
            return
        init.uniform(keep, 1.0)
        keep.copy_((1.0 + (keep + 1.0) * (span - 2) / 2).log())
        if self._is_lstm:
            admit.copy_(-keep)
