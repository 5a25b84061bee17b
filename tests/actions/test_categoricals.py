"""Choices side by side: what a reader can work out, and the corners (F01)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from surefoot.actions.categorical import Categoricals
from surefoot.math.segments import Segments


def bound(logits: Tensor, sizes: list[int], mask: Tensor | None = None) -> Categoricals:
    segments = Segments.of(sizes)
    return Categoricals(segments.pad(logits), segments.pad_mask(mask))


def test_probabilities_by_hand() -> None:
    choices = bound(torch.log(torch.tensor([[1.0, 3.0, 2.0, 2.0, 4.0]])), [2, 3])
    assert choices.log_probs.exp().flatten().tolist() == pytest.approx([0.25, 0.75, 0.0, 0.25, 0.25, 0.5])
    assert choices.entropy()[0].tolist() == pytest.approx(
        [0.25 * math.log(4) + 0.75 * math.log(4 / 3), 1.5 * math.log(2)]
    )


def test_a_choice_far_below_the_others_keeps_its_digits() -> None:
    p = bound(torch.tensor([[500.0, 501.0, -500.0, -499.0]]), [2, 2]).log_probs.exp().flatten().tolist()
    assert p[:2] == pytest.approx(p[2:])
    assert p[0] == pytest.approx(1 / (1 + math.e))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_an_illegal_entry_has_no_probability_no_influence_and_no_gradient(dtype: torch.dtype) -> None:
    mask = torch.tensor([[True, False, True, True, False]])
    logits = torch.tensor([[0.0, torch.nan, 0.0, 5.0, torch.inf]], dtype=dtype, requires_grad=True)
    choices = bound(logits, [3, 2], mask)
    assert choices.log_probs.isfinite().all()
    assert choices.log_probs.exp().flatten().tolist() == pytest.approx([0.5, 0.0, 0.5, 1.0, 0.0, 0.0])
    entropy = choices.entropy()
    assert entropy[0].tolist() == pytest.approx([math.log(2), 0.0], abs=1e-2)
    assert entropy[0, 1] == 0.0
    total = choices.log_prob(torch.tensor([[2, 0]])).sum() + entropy.sum()
    (gradient,) = torch.autograd.grad(total, logits)
    assert gradient.isfinite().all()
    assert gradient[0, [1, 4]].tolist() == [0.0, 0.0]
    assert gradient[0, 3] == 0.0, "a single legal choice cannot become more likely"


def test_a_choice_without_legal_entries_stays_finite() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0, 4.0]], requires_grad=True)
    choices = bound(logits, [2, 2], torch.tensor([[False, False, True, True]]))
    entropy = choices.entropy()
    assert entropy[0, 0] == 0.0
    assert choices.log_probs[0, 0].exp().tolist() == [0.0, 0.0]
    (gradient,) = torch.autograd.grad(entropy.sum(), logits)
    assert gradient.isfinite().all()


def test_padding_is_never_drawn() -> None:
    """With noise that would make every padded entry win."""
    log_noise = torch.tensor([[[0.0, -50.0, -50.0], [0.0, -1.0, 0.0]]])
    assert bound(torch.zeros(1, 4), [1, 3]).draw(log_noise).tolist() == [[0, 1]]


def test_leading_axes_are_kept() -> None:
    choices = bound(torch.zeros(4, 6, 5), [2, 3], torch.ones(4, 6, 5, dtype=torch.bool))
    assert choices.entropy().shape == (4, 6, 2)
    assert choices.draw(None).shape == (4, 6, 2)
