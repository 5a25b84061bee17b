"""LSTM and GRU over many sequences of different lengths, in compiled loops.

torch's own layers pad sequences to equal length and, on a processor, spend most of a step of a small layer on
organising it. Here time is walked through by `kernel.cpp`, all else is matrix products. Same weights, same numbers to
about 1e-6.

The walks are operators of torch, so that a recorded gradient step (`surefoot.fast.compiled_step`) can hold them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from surefoot.fast.kernel import LANES, load_kernel


def fits(cell: nn.LSTM | nn.GRU) -> bool:
    """Whether compiled loops can stand in for a layer."""
    return cell.hidden_size % LANES == 0


def recur(cell: nn.LSTM | nn.GRU, features: Tensor, states: Tensor, first: Tensor, length: Tensor) -> Tensor:
    """Rows [R, F] of sequences of ``length`` [S], one after the other, from those of states [M, n] that ``first`` [S]
    names -> outputs [R, H].

    A state is the hidden states of all layers and, for an LSTM, the carries of all layers. A sequence may have no rows,
    and rows after the last one pad: their outputs are 0.
    """
    states = states.view(states.shape[0], -1, cell.num_layers, cell.hidden_size)
    for layer, (w_input, w_within, b_input, b_within) in enumerate(cell.all_weights):
        own = states[:, :, layer]
        if isinstance(cell, nn.LSTM):
            share = linear(features, w_input, b_input + b_within)
            features, *_ = _Lstm.apply(share, w_within, own, first, length)  # type: ignore[no-untyped-call]
        else:
            share = linear(features, w_input, b_input)
            features, *_ = _Gru.apply(share, w_within, b_within, own, first, length)  # type: ignore[no-untyped-call]
    return features


class _Lstm(torch.autograd.Function):
    """The input's share of the gates [R, 4H], from states [M, 2, H] -> hidden states [R, H], and what the way back
    needs."""

    @staticmethod
    def forward(share: Tensor, weight: Tensor, states: Tensor, first: Tensor, length: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = torch.ops.surefoot.lstm_forward(share, weight, states, first, length)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        _, weight, states, first, length = inputs
        _, carry, before, gates = output
        ctx.mark_non_differentiable(carry, before, gates)
        ctx.save_for_backward(weight, states, first, length, carry, before, gates)

    @staticmethod
    def backward(ctx: Any, d_hidden: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        weight, states, first, length, carry, before, gates = ctx.saved_tensors
        d_share = torch.ops.surefoot.lstm_backward(d_hidden, gates, weight, states, carry, first, length)
        return d_share, d_share.t() @ before, None, None, None


class _Gru(torch.autograd.Function):
    """The input's share of the gates [R, 3H], from states [M, 1, H] -> hidden states [R, H], and what the way back
    needs."""

    @staticmethod
    def forward(
        share: Tensor, weight: Tensor, bias: Tensor, states: Tensor, first: Tensor, length: Tensor
    ) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = torch.ops.surefoot.gru_forward(share, weight, bias, states, first, length)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        _, weight, _, _, _, length = inputs
        _, before, gates, own = output
        ctx.mark_non_differentiable(before, gates, own)
        ctx.save_for_backward(weight, length, before, gates, own)

    @staticmethod
    def backward(ctx: Any, d_hidden: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        weight, length, before, gates, own = ctx.saved_tensors
        d_share, d_own = torch.ops.surefoot.gru_backward(d_hidden, gates, own, weight, before, length)
        return d_share, d_own.t() @ before, d_own.sum(0), None, None, None


def _call(name: str, given: tuple[Tensor, ...], made: list[Tensor], width: int, *strides: int) -> list[Tensor]:
    """A function of the kernel: what it is given (the lengths last), what it writes (all rows of), and how the states
    lie that it starts from."""
    pointers = [x.data_ptr() for x in (*given, *made)]
    sizes = (given[-1].shape[0], made[0].shape[0], width, torch.get_num_threads())
    getattr(load_kernel(), name)(*pointers, *sizes, *strides)
    return made


def _rows(share: Tensor, *widths: int) -> list[Tensor]:
    return [share.new_empty(share.shape[0], width) for width in widths]


def _lstm_made(share: Tensor, weight: Tensor, *_: Tensor) -> list[Tensor]:
    width = weight.shape[1]
    return _rows(share, width, width, width, 4 * width)


def _lstm_forward(share: Tensor, weight: Tensor, states: Tensor, first: Tensor, length: Tensor) -> list[Tensor]:
    given = share.contiguous(), weight.contiguous(), states, first, length
    return _call("lstm_forward", given, _lstm_made(share, weight), weight.shape[1], *states.stride()[:2])


def _lstm_gradient(_: Tensor, gates: Tensor, *__: Tensor) -> Tensor:
    return torch.empty_like(gates)


def _lstm_backward(
    d_hidden: Tensor, gates: Tensor, weight: Tensor, states: Tensor, carry: Tensor, first: Tensor, length: Tensor
) -> Tensor:
    given = d_hidden.contiguous(), gates, weight.contiguous(), states, carry, first, length
    made = torch.empty_like(gates)
    _call("lstm_backward", given, [made], d_hidden.shape[1], *states.stride()[:2])
    return made


def _gru_made(share: Tensor, weight: Tensor, *_: Tensor) -> list[Tensor]:
    width = weight.shape[1]
    return _rows(share, width, width, 3 * width, 3 * width)


def _gru_forward(
    share: Tensor, weight: Tensor, bias: Tensor, states: Tensor, first: Tensor, length: Tensor
) -> list[Tensor]:
    given = share.contiguous(), weight.contiguous(), bias.contiguous(), states, first, length
    return _call("gru_forward", given, _gru_made(share, weight), weight.shape[1], states.stride(0))


def _gru_gradient(_: Tensor, gates: Tensor, *__: Tensor) -> list[Tensor]:
    return [torch.empty_like(gates), torch.empty_like(gates)]


def _gru_backward(
    d_hidden: Tensor, gates: Tensor, own: Tensor, weight: Tensor, before: Tensor, length: Tensor
) -> list[Tensor]:
    given = d_hidden.contiguous(), gates, own, weight.contiguous(), before, length
    return _call("gru_backward", given, _gru_gradient(d_hidden, gates), d_hidden.shape[1])


def _operator(schema: str, on_host: Callable[..., Any], fake: Callable[..., Any]) -> None:
    """Tell torch of an operator: what it does on the host, and of which shapes its results are."""
    bare, opening, rest = schema.partition("(")
    name = f"surefoot::{bare}"
    torch.library.define(name, opening + rest)
    torch.library.impl(name, "CPU")(on_host)
    torch.library.register_fake(name)(fake)


_operator(
    "lstm_forward(Tensor share, Tensor weight, Tensor states, Tensor first, Tensor length) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    _lstm_forward,
    _lstm_made,
)
_operator(
    "lstm_backward(Tensor d_hidden, Tensor gates, Tensor weight, Tensor states, Tensor carry, Tensor first, "
    "Tensor length) -> Tensor",
    _lstm_backward,
    _lstm_gradient,
)
_operator(
    "gru_forward(Tensor share, Tensor weight, Tensor bias, Tensor states, Tensor first, Tensor length) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    _gru_forward,
    _gru_made,
)
_operator(
    "gru_backward(Tensor d_hidden, Tensor gates, Tensor own, Tensor weight, Tensor before, Tensor length) "
    "-> (Tensor, Tensor)",
    _gru_backward,
    _gru_gradient,
)
