"""LSTM and GRU over many sequences of different lengths, in compiled loops.

torch's own layers pad sequences to equal length and, on a processor, spend most of a step of a small layer on
organising it. Here time is walked through by `kernel.cpp`, all else is matrix products. Same weights, same numbers to
about 1e-6.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from surefoot.nets.kernel import LANES, Kernel, panels


def fits(cell: nn.LSTM | nn.GRU) -> bool:
    """Whether compiled loops can stand in for a layer."""
    return cell.hidden_size % LANES == 0


def recur(kernel: Kernel, cell: nn.LSTM | nn.GRU, features: Tensor, start: Tensor, length: Tensor) -> Tensor:
    """Rows [R, F] of sequences of ``length`` [S], one after the other, from states [S, n] -> outputs [R, H].

    A state is the hidden states of all layers and, for an LSTM, the carries of all layers.
    """
    function = _Lstm if isinstance(cell, nn.LSTM) else _Gru
    begin = length.cumsum(0) - length
    states = start.view(len(length), -1, cell.num_layers, cell.hidden_size)
    for layer in range(cell.num_layers):
        own = states[:, :, layer].flatten(1).contiguous()
        features = function.apply(kernel, features, *cell.all_weights[layer], own, begin, length)  # type: ignore[no-untyped-call]
    return features


def _pointers(*arrays: Tensor) -> list[int]:
    return [x.data_ptr() for x in arrays]


def _with_hidden_before(features: Tensor, after: Tensor, start: Tensor, begin: Tensor, width: int) -> Tensor:
    """What the gates of each row were made from: features and the hidden state before it, [R, F + H]."""
    n = features.shape[1]
    found = features.new_empty(len(features), n + width)
    found[:, :n] = features
    found[1:, n:] = after[:-1, :width]
    found[begin, n:] = start[:, :width]
    return found


class _Lstm(torch.autograd.Function):
    """Features [R, F] -> hidden states [R, H]."""

    @staticmethod
    def forward(
        ctx: Any,
        kernel: Kernel,
        features: Tensor,
        w_input: Tensor,
        w_within: Tensor,
        b_input: Tensor,
        b_within: Tensor,
        start: Tensor,
        begin: Tensor,
        length: Tensor,
    ) -> Tensor:
        width = w_within.shape[1]
        gates = torch.addmm(b_input + b_within, features, w_input.t())
        after, weights = gates.new_empty(len(gates), 2 * width), panels(w_within.t())
        sizes = (len(length), width, width, 2 * width, 2 * width)
        kernel.lstm_forward(*_pointers(gates, weights, start, after, begin, length), *sizes)
        ctx.kernel, ctx.sizes = kernel, sizes
        ctx.save_for_backward(features, gates, w_input, w_within, start, after, begin, length)
        return after[:, :width].contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor) -> tuple[Tensor | None, ...]:
        features, gates, w_input, w_within, start, after, begin, length = ctx.saved_tensors
        d_gates, weights, d_hidden = torch.empty_like(gates), panels(w_within), d_hidden.contiguous()
        pointers = _pointers(gates, weights, start, after, d_hidden, d_gates, begin, length)
        ctx.kernel.lstm_backward(*pointers, *ctx.sizes)
        n_inputs = features.shape[1]
        made_from = _with_hidden_before(features, after, start, begin, w_within.shape[1])
        d_input, d_within = (d_gates.t() @ made_from).tensor_split((n_inputs,), 1)
        d_bias = d_gates.sum(0)
        d_features = d_gates @ w_input if ctx.needs_input_grad[1] else None
        return None, d_features, d_input, d_within, d_bias, d_bias, None, None, None


class _Gru(torch.autograd.Function):
    """Features [R, F] -> hidden states [R, H]."""

    @staticmethod
    def forward(
        ctx: Any,
        kernel: Kernel,
        features: Tensor,
        w_input: Tensor,
        w_within: Tensor,
        b_input: Tensor,
        b_within: Tensor,
        start: Tensor,
        begin: Tensor,
        length: Tensor,
    ) -> Tensor:
        width = w_within.shape[1]
        gates, within = torch.addmm(b_input, features, w_input.t()), b_within.repeat(len(features), 1)
        after, weights = gates.new_empty(len(gates), width), panels(w_within.t())
        sizes = (len(length), width, width, width)
        kernel.gru_forward(*_pointers(gates, within, weights, start, after, begin, length), *sizes)
        ctx.kernel, ctx.sizes = kernel, sizes
        ctx.save_for_backward(features, gates, within, w_input, w_within, start, after, begin, length)
        return after.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor) -> tuple[Tensor | None, ...]:
        features, gates, within, w_input, w_within, start, after, begin, length = ctx.saved_tensors
        d_gates, d_within = torch.empty_like(gates), torch.empty_like(gates)
        weights, d_hidden = panels(w_within), d_hidden.contiguous()
        pointers = _pointers(gates, within, weights, start, after, d_hidden, d_gates, d_within, begin, length)
        ctx.kernel.gru_backward(*pointers, *ctx.sizes)
        before = _with_hidden_before(features[:, :0], after, start, begin, w_within.shape[1])
        d_features = d_gates @ w_input if ctx.needs_input_grad[1] else None
        d_weights = d_gates.t() @ features, d_within.t() @ before
        return None, d_features, *d_weights, d_gates.sum(0), d_within.sum(0), None, None, None
