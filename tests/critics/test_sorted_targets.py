"""The quick loss against a sorted law is the slow one over all pairs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from surefoot.math.quantile import huber_loss
from surefoot.math.quantile_law import sorted_huber_loss


def sample(seed: int, rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


LAWS = {
    "spread": sample(0, 7, 12),
    "far away": 1000.0 + sample(0, 7, 12),
    "narrow": 1e-3 * sample(0, 7, 12),
    "a point": torch.full((7, 12), 3.0),
    "a crash": torch.cat([sample(0, 7, 11), torch.full((7, 1), -100.0)], 1),
    "one value": sample(0, 7, 1),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kappa", [0.0, 0.02, 1.0])
def test_it_equals_the_loss_over_all_pairs(law: str, kappa: float) -> None:
    targets = LAWS[law].sort(-1).values
    quantiles = (targets.mean() + sample(1, 7, 9)).requires_grad_()
    exact = quantiles.detach().double().requires_grad_()
    expected, found = huber_loss(exact, targets.double(), kappa), sorted_huber_loss(quantiles, targets, kappa)
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-5)
    (slow,) = torch.autograd.grad(expected.sum(), exact)
    (quick,) = torch.autograd.grad(found.sum(), quantiles)
    torch.testing.assert_close(quick.double(), slow, atol=1e-4, rtol=1e-4)
    assert (found >= 0).all()


def test_by_hand() -> None:
    """q = 1, τ = ½, y = 0, 1.5, 4, κ = 1: u = −1, ½, 3; Huber ½, ⅛, 2½; half of their mean."""
    found = sorted_huber_loss(torch.tensor([[1.0]]), torch.tensor([[0.0, 1.5, 4.0]]), 1.0)
    assert found.tolist() == [pytest.approx(0.5 * (0.5 + 0.125 + 2.5) / 3)]


def test_a_target_on_a_quantile_costs_nothing() -> None:
    for kappa in (0.0, 0.1):
        assert sorted_huber_loss(torch.tensor([[2.0, 2.0]]), torch.tensor([[2.0, 2.0, 2.0]]), kappa).tolist() == [0.0]
