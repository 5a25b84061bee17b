"""The shortfall's policy gradient is that of CVaR (R02)."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from surefoot.math.risk import cvar_from_atoms, cvar_from_samples
from surefoot.math.tail import Tail, lagrangian_advantages, shortfall, standard_error, tail_of

ALPHAS = [0.1, 0.25, 0.4, 0.7, 1.0]
PAYOFFS = torch.tensor([[1.0, 1.0, 1.0], [-4.0, 0.5, 3.0], [-1.0, 0.0, 2.5]], dtype=torch.float64)
CHANCES = torch.tensor([[1.0, 0.0, 0.0], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]], dtype=torch.float64)
"""A bandit: arm i pays PAYOFFS[i, j] with probability CHANCES[i, j]."""


def masses(logits: Tensor) -> Tensor:
    """Probability of each (arm, payoff) under softmax(logits) [9]."""
    return (torch.softmax(logits, -1)[:, None] * CHANCES).flatten()


def cvar(logits: Tensor, alpha: float) -> Tensor:
    return cvar_from_atoms(masses(logits), PAYOFFS.flatten(), alpha)


def exact_tail(logits: Tensor, alpha: float) -> Tail:
    """VaR by going up the payoffs until α is reached, CVaR by its definition."""
    mass, level = masses(logits), 0.0
    for value in sorted(set(PAYOFFS.flatten().tolist())):
        level += float(mass[PAYOFFS.flatten() == value].sum())
        if level >= alpha - 1e-12:
            return Tail(alpha, torch.tensor(value, dtype=torch.float64), cvar(logits, alpha))
    raise AssertionError("the masses add up to 1")


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("logits", [(0.2, 0.1, 0.0), (0.3, -0.5, 1.0), (-1.0, 0.7, 0.1)])
def test_the_expected_score_times_advantage_is_the_gradient_of_cvar(
    alpha: float, logits: tuple[float, float, float]
) -> None:
    """Σ p·A·∇log p over all outcomes, against central differences of the true CVaR."""
    theta = torch.tensor(logits, dtype=torch.float64)
    advantages = shortfall(PAYOFFS, exact_tail(theta, alpha))
    shares = torch.softmax(theta, -1)
    scores = torch.eye(3, dtype=torch.float64) - shares  # ∇ log softmax of each arm
    policy_gradient = torch.einsum("i,ij,ij,ik->k", shares, CHANCES, advantages, scores)
    step = 1e-6
    differences = [
        float(cvar(theta + step * unit, alpha) - cvar(theta - step * unit, alpha)) / (2 * step)
        for unit in torch.eye(3, dtype=torch.float64)
    ]
    torch.testing.assert_close(policy_gradient, torch.tensor(differences, dtype=torch.float64), rtol=1e-6, atol=1e-8)


def test_a_sample_gives_the_gradient_too() -> None:
    """The same with VaR and CVaR estimated from 200,000 draws."""
    theta, alpha, n = torch.tensor([0.3, -0.5, 1.0], dtype=torch.float64), 0.25, 200_000
    rng = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(masses(theta), n, replacement=True, generator=rng)
    returns = PAYOFFS.flatten()[drawn]
    advantages = shortfall(returns, tail_of(returns, alpha))
    scores = (torch.eye(3, dtype=torch.float64) - torch.softmax(theta, -1))[drawn // 3]
    estimate = (advantages[:, None] * scores).mean(0)
    variable = theta.clone().requires_grad_()
    (expected,) = torch.autograd.grad(cvar(variable, alpha), variable)
    torch.testing.assert_close(estimate, expected, rtol=0.0, atol=0.03)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_var_and_the_mean_shortfall_are_cvar(alpha: float) -> None:
    rng = torch.Generator().manual_seed(1)
    for n in (7, 40, 41):
        sample = torch.randn(n, generator=rng, dtype=torch.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 0.1 of 7 is less than one
            tail = tail_of(sample, alpha)
            assert float(tail.cvar) == pytest.approx(float(cvar_from_samples(sample, alpha)))
        if tail.level == alpha:
            assert float(tail.var + shortfall(sample, tail).mean()) == pytest.approx(float(tail.cvar))


def test_the_standard_error_is_that_of_repeated_samples() -> None:
    rng = torch.Generator().manual_seed(3)
    samples = torch.randn(400, 1000, generator=rng, dtype=torch.float64)
    tails = [tail_of(sample, 0.1) for sample in samples]
    spread = float(torch.stack([tail.cvar for tail in tails]).std())
    said = sum(standard_error(sample, tail) for sample, tail in zip(samples, tails, strict=True)) / len(tails)
    assert said == pytest.approx(spread, rel=0.1)
    assert standard_error(torch.tensor([2.0]), Tail(0.5, torch.tensor(2.0), torch.tensor(2.0))) == 0.0


def test_a_small_sample_by_hand() -> None:
    """Worst half of (−3, −1, 2, 5): VaR −1, CVaR −2. Below VaR: (R + 1)/½."""
    returns = torch.tensor([5.0, -3.0, 2.0, -1.0])
    tail = tail_of(returns, 0.5)
    assert (tail.level, float(tail.var), float(tail.cvar)) == (0.5, -1.0, -2.0)
    assert shortfall(returns, tail).tolist() == [0.0, -4.0, 0.0, 0.0]


def test_a_tail_of_equal_returns_is_widened_until_there_is_a_way_out() -> None:
    """Six of ten are −4, so the worst 0.3 are all alike and CVaR has no slope: −4 is to become rarer."""
    returns = torch.tensor([-4.0] * 6 + [1.0, 8.0, 8.0, 8.0], dtype=torch.float64)
    tail = tail_of(returns, 0.3)
    assert [tail.level, float(tail.var), float(tail.cvar)] == pytest.approx([0.6, 1.0, -4.0])
    advantages = shortfall(returns, tail)
    # (−4 − 1)/0.6 = −25/3 for the worst, 0 for the others
    assert advantages.tolist() == pytest.approx([-25 / 3] * 6 + [0.0] * 4)


def test_returns_that_differ_by_rounding_are_alike() -> None:
    rounded = torch.tensor([-4.0, -4.0 + 1e-12, -4.0 - 1e-12, 1.0, 8.0], dtype=torch.float64)
    assert tail_of(rounded, 0.3).level == pytest.approx(0.6)


def test_equal_returns_have_no_advantage() -> None:
    returns = torch.full((8,), 2.5)
    assert shortfall(returns, tail_of(returns, 0.25)).tolist() == [0.0] * 8


@pytest.mark.parametrize(("scale", "offset"), [(0.01, -5.0), (100.0, 5.0)])
def test_advantages_have_the_unit_of_the_returns(scale: float, offset: float) -> None:
    rng = torch.Generator().manual_seed(2)
    returns = torch.randn(100, generator=rng, dtype=torch.float64)
    plain = shortfall(returns, tail_of(returns, 0.2))
    moved = scale * returns + offset
    torch.testing.assert_close(shortfall(moved, tail_of(moved, 0.2)), scale * plain)


def test_the_lagrangian_by_hand() -> None:
    """(2 + 3·(−1))/4 = −¼,   (2 + 3·4)/4 = 3½."""
    joined = lagrangian_advantages(torch.tensor([2.0, 2.0]), torch.tensor([-1.0, 4.0]), 3.0)
    assert joined.tolist() == [-0.25, 3.5]
    assert lagrangian_advantages(torch.tensor([2.0]), torch.tensor([9.0]), 0.0).tolist() == [2.0]
