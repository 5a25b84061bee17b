from __future__ import annotations

import math

import pytest
import torch

from surefoot.math.kl import bernoulli_kl, beta_kl, categorical_kl, gaussian_kl, k1, k2, k3
from surefoot.math.masking import masked_log_softmax


def test_estimators_by_hand() -> None:
    d = torch.tensor([0.0, math.log(2.0), -math.log(2.0)])
    torch.testing.assert_close(k1(d), torch.tensor([0.0, -0.693147, 0.693147]))
    torch.testing.assert_close(k2(d), torch.tensor([0.0, 0.240227, 0.240227]))
    torch.testing.assert_close(k3(d), torch.tensor([0.0, 1.0 - 0.693147, -0.5 + 0.693147]))


@pytest.mark.parametrize("d", [1e-8, -1e-6, 1e-4, -1e-3, 0.0999, 0.1001])
def test_k3_keeps_its_digits_near_zero(d: float) -> None:
    x = float(torch.tensor(d))
    exact = x * x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x / 720))))
    assert float(k3(torch.tensor(d))) == pytest.approx(exact, rel=3e-6)


def test_k3_is_finite_and_not_negative_for_every_finite_log_ratio() -> None:
    d = torch.tensor([-3e38, -1e3, -20.0, 0.0, 20.0, 1e3, 3e38], requires_grad=True)
    (gradient,) = torch.autograd.grad(k3(d).sum(), d)
    value = k3(d.detach())
    assert bool(torch.isfinite(value).all())
    assert bool((value >= 0).all())
    assert bool(torch.isfinite(gradient).all())
    assert float(value[1]) == pytest.approx(999.0)
    assert float(value[5]) == float(value[4])


def test_k3_gradient_is_ratio_minus_one_on_both_sides_of_the_series() -> None:
    d = torch.tensor([-2.0, -0.1001, -0.0999, 0.0, 0.05, 0.3], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(k3(d).sum(), d)
    torch.testing.assert_close(gradient, torch.expm1(d.detach()))


def test_k1_and_k3_are_unbiased_over_the_old_policy() -> None:
    old, new = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.3, 0.5])
    d = new.log() - old.log()
    exact = categorical_kl(old.log(), new.log())
    torch.testing.assert_close((old * k1(d)).sum(), exact)
    torch.testing.assert_close((old * k3(d)).sum(), exact)


def test_categorical_kl_by_hand() -> None:
    p, q = torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    # ½ ln 2 + ½ ln(2/3); ln 2
    expected = torch.tensor([0.5 * math.log(2) + 0.5 * math.log(2 / 3), math.log(2)])
    torch.testing.assert_close(categorical_kl(p.log(), q.log()), expected)


def test_categorical_kl_is_safe_with_masked_actions() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    mask = torch.tensor([[True, False, True]])
    old = masked_log_softmax(torch.tensor([[0.0, 0.0, 0.0]]), mask)
    divergence = categorical_kl(old, masked_log_softmax(logits, mask))
    (gradient,) = torch.autograd.grad(divergence.sum(), logits)
    # old = (½, ½), new = (1, e²)/(1 + e²) over the legal two
    new = 1.0 / (1.0 + math.exp(2.0))
    expected = 0.5 * math.log(0.5 / new) + 0.5 * math.log(0.5 / (1.0 - new))
    assert float(divergence.detach()) == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(gradient, torch.tensor([[new - 0.5, 0.0, 0.5 - new]]))

    infinite = torch.tensor([[0.0, -torch.inf]], requires_grad=True)
    same = categorical_kl(infinite, infinite.detach())
    (gradient,) = torch.autograd.grad(same.sum(), infinite)
    assert float(same.detach()) == 0.0
    assert bool(torch.isfinite(gradient).all())


def test_an_action_that_only_the_old_policy_takes_is_infinitely_far() -> None:
    assert float(categorical_kl(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 0.0]]).log())) == math.inf


def test_gaussian_kl_by_hand_and_summed_over_dimensions_once() -> None:
    zero = torch.zeros(2, 3)
    # one dimension: ½·1² = ½ for a mean one std away; ln 2 + ⅛ − ½ for σ 1 -> 2
    torch.testing.assert_close(gaussian_kl(zero, zero, zero + 1.0, zero), torch.tensor([1.5, 1.5]))
    wider = gaussian_kl(zero, zero, zero, zero + math.log(2.0))
    torch.testing.assert_close(wider, torch.full((2,), 3 * (math.log(2.0) + 0.125 - 0.5)))
    assert gaussian_kl(zero, torch.zeros(3), zero, torch.zeros(3)).tolist() == [0.0, 0.0]


def test_tiny_gaussian_steps_keep_their_digits() -> None:
    zero = torch.zeros(1, 1)
    # k3(2e-4)/2 ≈ 1e-8
    assert float(gaussian_kl(zero, zero + 1e-4, zero, zero)) == pytest.approx(1e-8, rel=1e-3)


def test_bernoulli_kl_by_hand_and_finite_at_extreme_logits() -> None:
    # p = ½, q = ¾ (logit ln 3)
    divergence = bernoulli_kl(torch.zeros(1, 1), torch.full((1, 1), math.log(3.0)))
    assert float(divergence) == pytest.approx(0.5 * math.log(2.0) + 0.5 * math.log(2.0 / 3.0), rel=1e-5)
    logits = torch.tensor([[500.0, -500.0]], requires_grad=True)
    far = bernoulli_kl(logits, -logits.detach())
    (gradient,) = torch.autograd.grad(far.sum(), logits)
    assert float(far.detach()) == pytest.approx(1000.0)
    assert bool(torch.isfinite(gradient).all())


def test_beta_kl_of_a_distribution_with_itself_is_zero_and_summed_over_dimensions() -> None:
    alpha, beta = torch.tensor([[1.5, 30.0]]), torch.tensor([[2.5, 0.7]])
    assert float(beta_kl(alpha, beta, alpha, beta)) == pytest.approx(0.0, abs=1e-5)
    one = torch.ones(1, 1)
    # uniform against Beta(2, 1), density 2x: −ln 2 − ∫ ln x = 1 − ln 2
    assert float(beta_kl(one, one, 2 * one, one)) == pytest.approx(1.0 - math.log(2.0), rel=1e-5)


def test_gradients_of_exact_forms() -> None:
    torch.manual_seed(0)
    x = [torch.randn(3, 2, dtype=torch.float64, requires_grad=True) for _ in range(4)]
    assert torch.autograd.gradcheck(gaussian_kl, x)
    assert torch.autograd.gradcheck(bernoulli_kl, x[:2])
    assert torch.autograd.gradcheck(
        lambda p, q: categorical_kl(torch.log_softmax(p, -1), torch.log_softmax(q, -1)), x[:2]
    )
    positive = [(y.detach().exp() + 0.5).requires_grad_() for y in x]
    assert torch.autograd.gradcheck(beta_kl, positive)
