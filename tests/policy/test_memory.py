"""The memory between encoder and heads: whole sequences at once are the same as step by step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from surefoot.config import Config, MemoryConfig
from surefoot.nets.init import Initializer
from surefoot.policy.memories import build_memory
from surefoot.policy.memory import Memory, SequenceBatch
from surefoot.policy.recurrent import Recurrent

F, H = 3, 5
every_kind = pytest.mark.parametrize("kind", ["lstm", "gru"])


def memory_of(
    kind: Any, layers: int = 1, span: int | None = None, width: int = H, output_sizes: tuple[int, ...] = ()
) -> Recurrent:
    config = MemoryConfig(kind=kind, hidden_size=width, layers=layers, span=span, output_sizes=output_sizes)
    made = build_memory(Config(memory=config), F, Initializer(torch.Generator().manual_seed(0), True))
    assert isinstance(made, Recurrent)
    return made


def one_by_one(memory: Memory, features: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    outputs, state = [], start
    for step in features.unbind(1):
        output, state = memory.step(step, state)
        outputs.append(output)
    return torch.stack(outputs, 1), state


def test_no_memory_is_none() -> None:
    assert build_memory(Config(), F, Initializer(torch.Generator(), True)) is None


@every_kind
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("output_sizes", [(), (6, 4)])
def test_a_sequence_at_once_is_the_same_step_by_step(kind: str, layers: int, output_sizes: tuple[int, ...]) -> None:
    memory = memory_of(kind, layers, output_sizes=output_sizes)
    assert memory.n_outputs == (output_sizes[-1] if output_sizes else H)
    assert memory.state_size == layers * H * (2 if kind == "lstm" else 1)
    features, start = torch.randn(4, 7, F), torch.randn(4, memory.state_size)
    for whole, slow in zip(memory.sequences(features, start), one_by_one(memory, features, start), strict=True):
        torch.testing.assert_close(whole, slow, rtol=0, atol=1e-6)


@every_kind
def test_rows_of_padded_sequences_are_those_of_each_alone(kind: str) -> None:
    """Three sequences of 3, 1 and 2 rows, one after the other; padding is not read back."""
    memory = memory_of(kind)
    features, start = torch.randn(6, F), torch.randn(3, memory.state_size)
    sequences = SequenceBatch(torch.tensor([3, 1, 2]), torch.tensor([2, 0, 1]), start[[1, 2, 0]])
    assert torch.equal(sequences.start, start)
    place, row = sequences.padded
    assert place.tolist() == [[0, 1, 2], [3, 0, 0], [4, 5, 0]]
    assert row.tolist() == [0, 1, 2, 3, 6, 7]
    together = memory.rows(features, sequences, slice(None))
    first = 0
    for s, length in enumerate((3, 1, 2)):
        alone, _ = one_by_one(memory, features[None, first : first + length], start[s : s + 1])
        torch.testing.assert_close(together[first : first + length], alone[0], rtol=0, atol=1e-6)
        first += length


@every_kind
def test_what_was_seen_first_reaches_the_last_output(kind: str) -> None:
    memory = memory_of(kind)
    features = torch.randn(2, 6, F, requires_grad=True)
    outputs, _ = memory.sequences(features, torch.zeros(2, memory.state_size))
    (gradient,) = torch.autograd.grad(outputs[0, -1].square().sum() + outputs[0, -1, 0], features)
    assert gradient[0, 0].abs().max() > 0
    assert (gradient[1] == 0).all()


@every_kind
@pytest.mark.parametrize("layers", [1, 2])
def test_initial_weights(kind: str, layers: int) -> None:
    """M05: each gate orthogonal, biases 0 but the forget gate's sum 1, LayerNorm at the end."""
    memory = memory_of(kind, layers)
    for name, parameter in memory.cell.named_parameters():
        if name.startswith("weight"):
            for gate in parameter.detach().split(H):
                small = gate @ gate.T if gate.shape[0] <= gate.shape[1] else gate.T @ gate
                scale = small[0, 0]
                torch.testing.assert_close(small, scale * torch.eye(len(small)), rtol=0, atol=1e-5)
        elif kind == "gru":
            assert (parameter == 0).all()
    if kind == "lstm":
        for layer in range(layers):
            bias = getattr(memory.cell, f"bias_ih_l{layer}") + getattr(memory.cell, f"bias_hh_l{layer}")
            assert bias.tolist() == [0.0] * H + [1.0] * H + [0.0] * 2 * H
    assert isinstance(memory.norm, nn.LayerNorm)
    outputs, _ = memory.sequences(torch.randn(2, 4, F), torch.randn(2, memory.state_size))
    torch.testing.assert_close(outputs.mean(-1), torch.zeros(2, 4), rtol=0, atol=1e-6)


@every_kind
@pytest.mark.parametrize("layers", [1, 2])
def test_a_span_spreads_the_times_for_which_units_remember(kind: str, layers: int) -> None:
    """A gate with bias ln u keeps u/(1 + u) of the state in each step: a time of 1 + u, at most span."""
    width, span = 200, 50
    memory = memory_of(kind, layers, span, width)
    for layer in range(layers):
        bias = (getattr(memory.cell, f"bias_ih_l{layer}") + getattr(memory.cell, f"bias_hh_l{layer}")).detach()
        keep = bias[width : 2 * width]
        times = 1.0 / (1.0 - torch.sigmoid(keep))
        assert times.min() >= 2.0 - 1e-4
        assert times.max() <= span + 1e-2
        assert times.max() > 0.95 * span
        assert times.mean() == pytest.approx((2 + span) / 2, rel=0.15)
        if kind == "lstm":
            assert torch.equal(bias[:width], -keep)
        assert (bias[2 * width :] == 0).all()


def test_a_span_lets_a_gru_tell_what_came_first_after_fifty_other_inputs() -> None:
    """With keep gates of one half, nothing is left of it."""
    first, rest = torch.randn(2, 1, F), torch.randn(1, 50, F).expand(2, -1, -1)
    difference = []
    for span in (None, 50):
        memory = memory_of("gru", span=span, width=64)
        with torch.no_grad():
            outputs, _ = memory.sequences(torch.cat([first, rest], 1), torch.zeros(2, memory.state_size))
        difference.append(float((outputs[0, -1] - outputs[1, -1]).norm()))
    assert difference[0] < 1e-3
    assert difference[1] > 1e-2
