"""The contract of memories: every kind that is registered runs every test here."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from surefoot.config import MemoryConfig
from surefoot.nets.init import Initializer
from surefoot.policy.memories import MEMORIES
from surefoot.policy.memory import Memory, SequenceBatch

F, H, S, L = 3, 5, 4, 6
every_memory = pytest.mark.parametrize("kind", list(MEMORIES))


def build(kind: str) -> Memory:
    config = MemoryConfig.model_validate({"kind": kind, "hidden_size": H})
    return MEMORIES[kind](F, config, "tanh", Initializer(torch.Generator().manual_seed(0)))


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@every_memory
def test_shapes(kind: str) -> None:
    memory = build(kind)
    outputs, after = memory.sequences(normal(S, L, F), torch.zeros(S, memory.state_size))
    assert outputs.shape == (S, L, memory.n_outputs)
    assert after.shape == (S, memory.state_size)
    assert 0 <= memory.hidden.start < memory.hidden.stop <= memory.state_size


@every_memory
def test_a_sequence_at_once_is_the_same_step_by_step(kind: str) -> None:
    memory = build(kind)
    features, state = normal(S, L, F), normal(S, memory.state_size, seed=2)
    outputs, after = memory.sequences(features, state)
    for t in range(L):
        output, state = memory.step(features[:, t], state)
        torch.testing.assert_close(output, outputs[:, t], rtol=0, atol=1e-6)
    torch.testing.assert_close(state, after, rtol=0, atol=1e-6)


@every_memory
def test_what_is_given_out_follows_from_the_state_after_the_step(kind: str) -> None:
    """The rollout keeps the columns ``hidden`` of it, and the values of the critic are computed from these (M03)."""
    memory = build(kind)
    output, after = memory.step(normal(S, F), normal(S, memory.state_size, seed=2))
    torch.testing.assert_close(memory.finish(after[:, memory.hidden]), output, rtol=0, atol=1e-6)


@every_memory
def test_rows_are_those_of_each_sequence_alone(kind: str) -> None:
    memory = build(kind)
    features, states = normal(6, F), normal(3, memory.state_size + 2, seed=2)
    sequences = SequenceBatch(torch.tensor([3, 1, 2]), torch.tensor([2, 0, 1]), states)
    own = slice(2, None)  # the first two columns belong to another memory
    rows = memory.rows(features, sequences, own)
    first = 0
    for length, state in ((3, 2), (1, 0), (2, 1)):
        alone, _ = memory.sequences(features[None, first : first + length], states[state : state + 1, own])
        torch.testing.assert_close(rows[first : first + length], alone[0], rtol=0, atol=1e-6)
        first += length


@every_memory
def test_the_first_step_reaches_the_last_output_of_its_own_sequence_alone(kind: str) -> None:
    memory = build(kind)
    features = normal(S, L, F).requires_grad_()
    outputs, _ = memory.sequences(features, torch.zeros(S, memory.state_size))
    (gradient,) = torch.autograd.grad((outputs[0, -1] * normal(memory.n_outputs, seed=3)).sum(), features)
    assert gradient[0, 0].abs().max() > 0
    assert not gradient[1:].any()


@every_memory
def test_an_output_does_not_see_later_steps(kind: str) -> None:
    memory = build(kind)
    features, start = normal(S, L, F), torch.zeros(S, memory.state_size)
    other = torch.cat([features[:, :3], normal(S, L - 3, F, seed=4)], 1)
    torch.testing.assert_close(memory.sequences(other, start)[0][:, :3], memory.sequences(features, start)[0][:, :3])
