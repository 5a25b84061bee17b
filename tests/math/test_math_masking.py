from __future__ import annotations

import math

import pytest
import torch

from surefoot.math.masking import masked_entropy, masked_log_softmax

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def test_probabilities_by_hand() -> None:
    logits = torch.tensor([[math.log(1.0), math.log(7.0), math.log(3.0)]])
    mask = torch.tensor([[True, False, True]])
    log_probs = masked_log_softmax(logits, mask)
    torch.testing.assert_close(log_probs.exp(), torch.tensor([[0.25, 0.0, 0.75]]))
    assert float(log_probs.exp()[0, 1]) == 0.0


def test_without_illegal_actions_it_is_log_softmax() -> None:
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    everything = torch.ones(5, 4, dtype=torch.bool)
    assert torch.equal(masked_log_softmax(logits, everything), torch.log_softmax(logits, -1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_gradients_are_finite_in_every_precision(dtype: torch.dtype) -> None:
    logits = torch.tensor([[9e3, -9e3, 5.0], [1.0, torch.nan, -torch.inf]], dtype=dtype, requires_grad=True)
    mask = torch.tensor([[True, False, True], [True, False, False]])
    log_probs = masked_log_softmax(logits, mask)
    entropy = masked_entropy(log_probs, mask)
    legal = torch.where(mask, log_probs, 0.0).sum()
    (gradient,) = torch.autograd.grad(legal + entropy.sum() + log_probs.exp().sum(), logits)
    for x in (log_probs, entropy, gradient):
        assert bool(torch.isfinite(x).all())
    assert gradient[~mask].tolist() == [0.0, 0.0, 0.0]
    assert log_probs.exp()[~mask].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_legal_action_is_certain_and_has_no_entropy(dtype: torch.dtype) -> None:
    logits = torch.tensor([[-3.0, 100.0, 7.0]], dtype=dtype)
    mask = torch.tensor([[True, False, False]])
    log_probs = masked_log_softmax(logits, mask)
    assert float(log_probs[0, 0]) == 0.0
    assert float(masked_entropy(log_probs, mask)) == 0.0


def test_entropy_of_equal_legal_actions_is_the_log_of_their_number() -> None:
    mask = torch.tensor([[True, True, False, True], [True, True, False, False]])
    log_probs = masked_log_softmax(torch.zeros(2, 4), mask)
    torch.testing.assert_close(masked_entropy(log_probs, mask), torch.tensor([math.log(3.0), math.log(2.0)]))


def test_entropy_gradient_is_that_of_the_formula() -> None:
    mask = torch.tensor([[True, False, True, True]])
    logits = torch.tensor([[0.3, 5.0, -1.0, 0.7]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: masked_entropy(masked_log_softmax(x, mask), mask), (logits,))


def test_rows_without_a_legal_action_do_not_make_nan() -> None:
    mask = torch.tensor([[False, False], [True, False]])
    log_probs = masked_log_softmax(torch.zeros(2, 2), mask)
    assert bool(torch.isfinite(log_probs).all())
    assert masked_entropy(log_probs, mask).tolist() == [0.0, 0.0]
