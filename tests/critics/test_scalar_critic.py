"""The mean return as one number, with predictions clipped but never targets (C01)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from surefoot.critics.scalar import ScalarCritic
from surefoot.nets.init import Initializer


def critic() -> ScalarCritic:
    return ScalarCritic(4, Initializer(torch.Generator().manual_seed(0)))


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers)[:, None]


def test_the_loss_is_the_squared_error() -> None:
    result = critic().loss(column(1.0, -2.0), column(9.0, 9.0), torch.tensor([3.0, -2.0]), None)
    assert result.loss.tolist() == [4.0, 0.0]


def test_predictions_are_clipped_around_the_old_ones_per_sample() -> None:
    """Old value 0, range 0.5. The larger loss counts, so that clipping never makes a sample look better.

    v = 1, y = 3: (1 − 3)² = 4,   (0.5 − 3)² = 6.25   clipped
    v = 1, y = 0: (1 − 0)² = 1,   (0.5 − 0)² = 0.25   unclipped
    v = 0.2, y = 3: both (0.2 − 3)² = 7.84            inside the range
    v = −1, y = −3: 4, (−0.5 + 3)² = 6.25             clipped
    """
    targets = torch.tensor([3.0, 0.0, 3.0, -3.0])
    result = critic().loss(column(1.0, 1.0, 0.2, -1.0), torch.zeros(4, 1), targets, 0.5)
    assert result.loss.tolist() == pytest.approx([6.25, 1.0, 7.84, 6.25])
    assert result.unclipped.tolist() == pytest.approx([4.0, 1.0, 7.84, 4.0])
    assert result.clipped.tolist() == pytest.approx([6.25, 0.25, 7.84, 6.25])
    assert result.active.tolist() == [True, False, False, True]


def test_a_clipped_prediction_has_no_gradient() -> None:
    prediction = column(1.0, 1.0).requires_grad_()
    result = critic().loss(prediction, torch.zeros(2, 1), torch.tensor([3.0, 0.0]), 0.5)
    result.loss.sum().backward()  # type: ignore[no-untyped-call]
    assert prediction.grad is not None
    assert prediction.grad[:, 0].tolist() == [0.0, 2.0]


def test_targets_far_beyond_the_range_are_not_clipped() -> None:
    result = critic().loss(column(0.0), column(0.0), torch.tensor([1000.0]), 0.1)
    assert result.loss.item() == 1e6


def test_its_distribution_is_a_point() -> None:
    prediction = column(1.5, -2.0)
    for alpha in (0.01, 0.5, 1.0):
        assert critic().risk(prediction, alpha).tolist() == critic().mean(prediction).tolist() == [1.5, -2.0]


def test_the_head_has_gain_one_and_no_bias() -> None:
    (head,) = (module for module in critic().modules() if isinstance(module, nn.Linear))
    assert head.weight.norm().item() == pytest.approx(1.0, abs=1e-5)
    assert head.bias.abs().max().item() == 0.0
