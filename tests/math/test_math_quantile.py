from __future__ import annotations

import pytest
import torch
from torch import Tensor

from surefoot.math.quantile import huber_loss, midpoints


def test_midpoints_by_hand() -> None:
    assert midpoints(4).tolist() == [0.125, 0.375, 0.625, 0.875]
    assert midpoints(2, dtype=torch.float64).dtype == torch.float64
    with pytest.raises(ValueError, match="n=0"):
        midpoints(0)


def test_loss_by_hand() -> None:
    quantiles, targets = torch.tensor([[0.0, 2.0]]), torch.tensor([1.0])
    # τ = ¼, ¾; u = 1, −1; weights ¼ and |¾ − 1| = ¼
    # κ = 0: (¼·1 + ¼·1)/2 = ¼;  κ = ½: |u| − ¼ = ¾ -> 3/16;  κ = 2: ½u²/2 = ¼ -> 1/16
    assert float(huber_loss(quantiles, targets, 0.0)) == 0.25
    assert float(huber_loss(quantiles, targets, 0.5)) == pytest.approx(3 / 16)
    assert float(huber_loss(quantiles, targets, 2.0)) == pytest.approx(1 / 16)


def test_several_targets_are_averaged() -> None:
    quantiles, targets = torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 5.0, 3.0]])
    each = torch.stack([huber_loss(quantiles, targets[:, j], 0.1) for j in range(3)])
    torch.testing.assert_close(huber_loss(quantiles, targets, 0.1), each.mean(0))


def test_too_low_a_quantile_is_pulled_up_with_weight_tau() -> None:
    quantiles = torch.tensor([[0.0, 0.0]], requires_grad=True)
    (up,) = torch.autograd.grad(huber_loss(quantiles, torch.tensor([9.0]), 1.0).sum(), quantiles)
    (down,) = torch.autograd.grad(huber_loss(quantiles, torch.tensor([-9.0]), 1.0).sum(), quantiles)
    assert up.tolist() == [[-0.125, -0.375]]
    assert down.tolist() == [[0.375, 0.125]]


def test_gradient_is_that_of_the_formula() -> None:
    torch.manual_seed(0)
    quantiles = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.randn(3, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda q: huber_loss(q, targets, 0.3), (quantiles,))
    assert torch.autograd.gradcheck(lambda q: huber_loss(q, targets, 0.0), (quantiles,))


def test_a_shape_that_would_couple_samples_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(4, 3\) and \(3,\)"):
        huber_loss(torch.zeros(4, 3), torch.zeros(3), 1.0)
    with pytest.raises(ValueError, match=r"\[B, N\]"):
        huber_loss(torch.zeros(4, 3), torch.zeros(4, 1, 1), 1.0)
    with pytest.raises(ValueError, match="kappa"):
        huber_loss(torch.zeros(4, 3), torch.zeros(4), -1.0)


def _fitted(samples: Tensor, n: int, kappa: float) -> Tensor:
    """Quantiles that minimise the mean loss over all samples at once."""
    quantiles = torch.zeros(1, n, dtype=samples.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([quantiles], lr=1.0, max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = huber_loss(quantiles, samples.unsqueeze(0), kappa).sum()
        value.backward()  # type: ignore[no-untyped-call] # torch does not type it
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call] # torch does not type it
    return quantiles.detach().squeeze(0)


@pytest.mark.parametrize("distribution", ["normal", "skewed"])
def test_fitted_quantiles_land_on_those_of_the_law(distribution: str) -> None:
    n = 8
    z = torch.special.ndtri((torch.arange(4000, dtype=torch.float64) + 0.5) / 4000)
    exact = torch.special.ndtri(midpoints(n, dtype=torch.float64))
    samples, expected = (z, exact) if distribution == "normal" else (torch.exp(0.5 * z), torch.exp(0.5 * exact))
    spread = float(samples.std())
    torch.testing.assert_close(_fitted(samples, n, 0.02 * spread), expected, rtol=0.02, atol=0.02 * spread)


def test_a_large_kappa_finds_expectiles_that_understate_the_tail() -> None:
    z = torch.special.ndtri((torch.arange(4000, dtype=torch.float64) + 0.5) / 4000)
    lowest = float(_fitted(z, 32, 1.0)[0])
    assert lowest == pytest.approx(-1.78, abs=0.02)
