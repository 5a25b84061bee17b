"""Compiled loops over time against torch's layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from surefoot.fast.decision import has_compiler
from surefoot.fast.kernel import panels
from surefoot.fast.recurrence import fits, recur

pytestmark = pytest.mark.skipif(not has_compiler(), reason="needs a C++ compiler")

Cell = nn.LSTM | nn.GRU
LENGTHS = {
    "one of one": [1],
    "one": [30],
    "two of different length": [3, 40],
    "three": [7, 7, 2],
    "groups that end at different times": [13, 40, 1, 7, 100, 3, 90, 25, 25],
    "many short ones": [1, 2, 3, 2, 1] * 9,
}
every_kind = pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])


def cell_of(kind: type[Cell], n_inputs: int, width: int, layers: int = 1) -> Cell:
    torch.manual_seed(width)
    return kind(n_inputs, width, layers, batch_first=True)


def states_of(cell: Cell, n: int) -> Tensor:
    return torch.randn(n, cell.num_layers * cell.hidden_size * (2 if isinstance(cell, nn.LSTM) else 1))


def one_by_one(cell: Cell, features: Tensor, start: Tensor, lengths: list[int]) -> Tensor:
    """Each sequence alone, by torch."""
    outputs = []
    for rows, state in zip(torch.split(features, lengths), start, strict=True):
        parts = state.view(-1, 1, cell.hidden_size)
        n = cell.num_layers
        given = (parts[:n].contiguous(), parts[n:].contiguous()) if isinstance(cell, nn.LSTM) else parts.contiguous()
        outputs.append(cell(rows.unsqueeze(0), given)[0][0])
    return torch.cat(outputs)


def gradients(outputs: Tensor, features: Tensor, cell: Cell) -> list[Tensor]:
    weights = torch.linspace(-1.0, 1.0, outputs.numel()).view_as(outputs)
    return list(torch.autograd.grad((outputs * weights).sum(), [features, *cell.parameters()]))


def walk(cell: Cell, features: Tensor, start: Tensor, length: Tensor) -> Tensor:
    """Each sequence from the state in its own place."""
    return recur(cell, features, start, torch.arange(len(start)), length)


@every_kind
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize(("n_inputs", "width", "layers"), [(5, 8, 1), (3, 24, 2), (16, 64, 1), (1, 40, 3)])
def test_outputs_and_all_gradients_are_those_of_torch(
    kind: type[Cell], lengths: list[int], n_inputs: int, width: int, layers: int
) -> None:
    cell = cell_of(kind, n_inputs, width, layers)
    features = torch.randn(sum(lengths), n_inputs, requires_grad=True)
    start = states_of(cell, len(lengths))
    wanted = one_by_one(cell, features, start, lengths)
    found = walk(cell, features, start, torch.tensor(lengths))
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-6)
    for ours, theirs in zip(gradients(found, features, cell), gradients(wanted, features, cell), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5 * float(theirs.abs().max()))


@every_kind
def test_sequences_start_from_the_states_they_name(kind: type[Cell]) -> None:
    cell = cell_of(kind, 4, 8, 2)
    features, length = torch.randn(9, 4, requires_grad=True), torch.tensor([2, 4, 3])
    states, first = states_of(cell, 5), torch.tensor([3, 0, 3])
    found, wanted = recur(cell, features, states, first, length), walk(cell, features, states[first], length)
    assert torch.equal(found, wanted)
    for ours, theirs in zip(gradients(found, features, cell), gradients(wanted, features, cell), strict=True):
        assert torch.equal(ours, theirs)


@every_kind
def test_a_state_that_lies_among_others_is_read_where_it_lies(kind: type[Cell]) -> None:
    cell = cell_of(kind, 4, 8)
    features, start = torch.randn(5, 4), states_of(cell, 2)
    wide = torch.cat([start, torch.full_like(start, torch.nan)], 1)
    length, n = torch.tensor([2, 3]), start.shape[1]
    found = walk(cell, features, wide[:, :n], length)
    assert torch.equal(found, walk(cell, features, start, length))


@every_kind
@pytest.mark.parametrize("size", [0.0, 1e-30, 30.0, 1e4, 1e30])
def test_extreme_inputs_saturate_as_in_torch(kind: type[Cell], size: float) -> None:
    cell = cell_of(kind, 4, 16)
    features, lengths = size * torch.randn(12, 4), [5, 7]
    start = states_of(cell, 2)
    found = walk(cell, features, start, torch.tensor(lengths))
    torch.testing.assert_close(found, one_by_one(cell, features, start, lengths), rtol=0, atol=2e-6)


@every_kind
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_not_a_number_stays_so_from_there_on_and_in_its_own_sequence(kind: type[Cell], bad: float) -> None:
    """An optimizer step must not be made from it, so it must not be hidden (P04)."""
    cell = cell_of(kind, 4, 8)
    features = torch.randn(12, 4)
    features[2, 1] = bad
    found = walk(cell, features, states_of(cell, 3), torch.tensor([5, 4, 3]))
    assert torch.isfinite(found[:2]).all()
    assert torch.isfinite(found[5:]).all()
    if bad != bad:
        assert torch.isnan(found[2:5]).all()


@every_kind
def test_rows_and_sequences_that_fill_up_change_nothing(kind: type[Cell]) -> None:
    """Sequences without rows may stand anywhere, rows that belong to none after all others."""
    cell = cell_of(kind, 5, 16, 2)
    features, start = torch.randn(9, 5, requires_grad=True), states_of(cell, 3)
    wanted = walk(cell, features, start, torch.tensor([4, 3, 2]))
    more = torch.cat([features, torch.full((6, 5), 1e3)])
    unused = torch.full_like(start[:2], torch.nan)
    states = torch.cat([start[:1], unused, start[1:], unused])
    found = walk(cell, more, states, torch.tensor([4, 0, 0, 3, 2, 0, 0]))
    assert torch.equal(found[:9], wanted)
    with torch.no_grad():
        alone = walk(cell_of(kind, 5, 16), more, states_of(cell_of(kind, 5, 16), 1), torch.tensor([9]))
    assert (alone[9:] == 0).all()
    for ours, theirs in zip(gradients(found[:9], features, cell), gradients(wanted, features, cell), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lengths", [[7], [5, 9], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]])
def test_threads_walk_as_one_does(lengths: list[int]) -> None:
    rows, width, length = sum(lengths), 16, torch.tensor(lengths)
    share, weight, d_hidden = torch.randn(rows, 4 * width), torch.randn(4 * width, width), torch.randn(rows, width)
    start, first = torch.randn(len(lengths), 2, width), torch.arange(len(lengths))
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            forward = torch.ops.surefoot.lstm_forward(share, weight, start, first, length)
            _, carry, _, gates = forward
            backward = torch.ops.surefoot.lstm_backward(d_hidden, gates, weight, start, carry, first, length)
            third = share[:, : 3 * width].contiguous(), weight[: 3 * width]
            gru = torch.ops.surefoot.gru_forward(*third, torch.zeros(3 * width), start[:, :1], first, length)
            _, hidden_before, activated, own = gru
            back = torch.ops.surefoot.gru_backward(d_hidden, activated, own, third[1], hidden_before, length)
            found.append([*forward, backward, *gru, *back])
    finally:
        torch.set_num_threads(before)
    for several in found[1:]:  # other groups of sequences, in which a compiler may fuse other products with sums
        for one, other in zip(several, found[0], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@every_kind
def test_the_same_call_gives_the_same_numbers(kind: type[Cell]) -> None:
    cell = cell_of(kind, 6, 32)
    features, length = torch.randn(60, 6, requires_grad=True), torch.tensor([20, 9, 31])
    start = states_of(cell, 3)
    once, again = (walk(cell, features, start, length) for _ in range(2))
    assert torch.equal(once, again)
    for one, other in zip(gradients(once, features, cell), gradients(again, features, cell), strict=True):
        assert torch.equal(one, other)


def test_without_gradient_nothing_is_kept() -> None:
    cell = cell_of(nn.LSTM, 4, 8)
    with torch.inference_mode():
        found = walk(cell, torch.randn(6, 4), states_of(cell, 2), torch.tensor([4, 2]))
    assert not found.requires_grad


@pytest.mark.parametrize(("width", "answer"), [(8, True), (64, True), (4, False), (60, False)])
def test_widths_that_fit(width: int, answer: bool) -> None:
    assert fits(nn.LSTM(3, width)) is answer


def test_panels_hold_eight_columns_each() -> None:
    matrix = torch.arange(48.0).view(3, 16)
    found = panels(matrix)
    assert found.shape == (2, 3, 8)
    assert torch.equal(found[1], matrix[:, 8:])
