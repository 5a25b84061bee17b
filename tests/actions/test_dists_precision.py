"""Numbers that naive formulas lose."""

from __future__ import annotations

import math

import pytest
import torch
from gymnasium import spaces

from surefoot.actions.registry import family_for

UNIT = spaces.Box(-1.0, 1.0, (1,))


def test_tanh_log_prob_is_right_where_one_minus_tanh_squared_is_zero() -> None:
    dist = family_for(UNIT, "tanh_gaussian").bind(torch.tensor([[30.0, 0.0]]))
    # N(30; 30, 1) / (4e^{-60}): 1 − tanh²(30) = 4e^{-60} to 1e-26 relative
    expected = -0.5 * math.log(2 * math.pi) - (math.log(4) - 60)
    assert dist.log_prob(torch.tensor([[30.0]])).item() == pytest.approx(expected, rel=1e-6)
    assert dist.log_prob(torch.tensor([[-30.0]])).item() == pytest.approx(expected - 60**2 / 2, rel=1e-6)


@pytest.mark.parametrize(("std", "tolerance"), [(0.05, 1e-6), (0.5, 1e-6), (1.0, 1e-6), (3.0, 4e-3)])
@pytest.mark.parametrize("mean", [0.0, 0.7, -3.0])
def test_tanh_entropy_is_as_exact_as_documented(std: float, mean: float, tolerance: float) -> None:
    params = torch.tensor([[mean, math.log(std)]], dtype=torch.float64)
    z = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    log_slope = torch.log1p(-torch.tanh(mean + std * z).square().clamp(max=1 - 1e-15))
    weight = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    expected = 0.5 * math.log(2 * math.pi * math.e) + math.log(std) + (weight * log_slope).sum()
    entropy = family_for(UNIT, "tanh_gaussian").bind(params).entropy()
    torch.testing.assert_close(entropy[0], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("std", [20.0, 1e3, 1e6])
def test_tanh_entropy_stays_within_two_percent_for_any_spread(std: float) -> None:
    # ln sech² x → 2 ln 2 − 2|x|, and E|x| = σ√(2/π)
    expected = 0.5 * math.log(2 * math.pi * math.e) + math.log(std) + 2 * math.log(2)
    expected -= 2 * std * math.sqrt(2 / math.pi)
    entropy = family_for(UNIT, "tanh_gaussian").bind(torch.tensor([[0.0, math.log(std)]])).entropy()
    assert entropy.item() == pytest.approx(expected, rel=0.02)


def test_beta_log_prob_keeps_its_digits_at_large_concentrations() -> None:
    # Beta(a, a) near its mean ½ is N(½, 1/(8a + 4)); its log density there is ½ln((8a + 4)/2π) to O(1/a)
    alpha = 1e6
    dist = family_for(spaces.Box(0.0, 1.0, (1,)), "beta").bind(torch.tensor([[alpha, alpha]]))
    expected = 0.5 * math.log((8 * alpha + 4) / (2 * math.pi))
    assert dist.log_prob(torch.tensor([[0.5]])).item() == pytest.approx(expected, rel=1e-5)
    assert dist.entropy().item() == pytest.approx(0.5 * math.log(2 * math.pi * math.e / (8 * alpha)), rel=1e-5)


def test_beta_actions_keep_off_the_ends() -> None:
    dist = family_for(UNIT, "beta").bind(torch.tensor([[1e4, -1e4]]).expand(1000, -1))
    for action in (dist.sample(torch.Generator().manual_seed(0)), dist.mode()):
        assert ((action > 0) & (action < 1)).all()
        assert dist.log_prob(action).isfinite().all()


def test_a_flat_beta_has_its_mode_in_the_middle() -> None:
    assert family_for(UNIT, "beta").bind(torch.tensor([[-1e4, -1e4]])).mode().item() == 0.5


def test_a_nearly_certain_coin_keeps_its_entropy() -> None:
    dist = family_for(spaces.MultiBinary(1)).bind(torch.tensor([[40.0]]))
    expected = 41 * math.exp(-40)  # −p ln p − q ln q with q = e^{-40}: q(1 + 40)
    assert dist.entropy().item() == pytest.approx(expected, rel=1e-5)
