"""The distribution of the return as quantiles (C04, C05, C06, R01)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from critics.fitting import fit, normal_sample
from surefoot.critics.calibration import coverage
from surefoot.critics.quantile import QuantileCritic
from surefoot.math.quantile import midpoints
from surefoot.math.risk import cvar_from_quantiles
from surefoot.math.value_clip import ClipMode
from surefoot.nets.init import Initializer


def build(
    n: int = 32, kappa: float = 0.02, mode: ClipMode = "mean_only", backup: bool = False, n_features: int = 1
) -> QuantileCritic:
    return QuantileCritic(n_features, Initializer(torch.Generator().manual_seed(0)), n, kappa, mode, backup)


def test_quantiles_of_a_normal_distribution_are_found() -> None:
    """Within 2 % of its spread; CVaR within 2 % of the closed form −φ(z)/α."""
    critic = build()
    fitted = fit(critic, normal_sample())
    assert (fitted[0].sort().values - torch.special.ndtri(midpoints(32))).abs().max() < 0.02
    assert float(critic.mean(fitted)) == pytest.approx(0.0, abs=0.01)
    for alpha, cvar in ((0.05, -2.0627), (0.1, -1.7550), (0.25, -1.2711)):
        assert float(critic.risk(fitted, alpha)) == pytest.approx(cvar, rel=0.02)


@pytest.mark.parametrize("sign", [-1.0, 1.0], ids=["crash", "jackpot"])
def test_quantiles_of_a_skewed_distribution_are_found(sign: float) -> None:
    """±exp(Z/2); CVaR_α of −exp(sZ) is −exp(s²/2)·Φ(s − z_{1−α})/α, of exp(sZ) it is exp(s²/2)·Φ(z_α − s)/α."""
    s = 0.5
    sample = sign * torch.exp(s * normal_sample())
    spread = math.exp(s * s / 2) * math.sqrt(math.exp(s * s) - 1)
    critic = build()
    fitted = fit(critic, sample)
    exact = (sign * torch.exp(s * torch.special.ndtri(midpoints(32)))).sort().values
    assert (fitted[0].sort().values - exact).abs().max() < 0.02 * spread
    score = torch.special.ndtri(torch.tensor(0.1))
    share = torch.special.ndtr(score + s) if sign < 0 else torch.special.ndtr(score - s)
    cvar = sign * math.exp(s * s / 2) * float(share) / 0.1
    assert float(critic.risk(fitted, 0.1)) == pytest.approx(cvar, abs=0.02 * spread)


def test_a_kappa_of_one_learns_expectiles_with_thin_tails() -> None:
    """Why kappa is small: with κ = 1 the CVaR₅% of N(0, 1) is −1.62 instead of −2.06."""
    fitted = fit(build(kappa=1.0), normal_sample())
    assert float(cvar_from_quantiles(fitted, 0.05, rule="step")) == pytest.approx(-1.615, abs=0.01)
    assert float(fitted.min()) == pytest.approx(-1.782, abs=0.01)
    assert float(build().risk(fitted, 0.05)) > -1.75


@pytest.mark.parametrize("kappa", [0.02, 0.1])
def test_kappa_draws_quantiles_to_the_middle_by_half_of_itself(kappa: float) -> None:
    fitted = fit(build(kappa=kappa), normal_sample())[0].sort().values
    levels = midpoints(32)
    torch.testing.assert_close(
        fitted - torch.special.ndtri(levels), kappa * (0.5 - levels), atol=0.12 * kappa + 0.002, rtol=0.0
    )


def test_kappa_is_relative_to_the_spread_of_the_returns() -> None:
    """A critic of returns a hundred times as large has a hundred times the loss, and the same gradient."""
    small, large = build(kappa=0.3), build(kappa=0.3)
    sample, valid = normal_sample(64)[:, None], torch.ones(64, 1, dtype=torch.bool)
    small.update_statistics(sample, valid)
    large.update_statistics(100.0 * sample, valid)
    quantiles = torch.linspace(-1.0, 1.0, 32).expand(64, 32)
    one = small.loss(quantiles, quantiles, sample[:, 0], None).loss
    two = large.loss(100.0 * quantiles, quantiles, 100.0 * sample[:, 0], None).loss
    torch.testing.assert_close(two, 100.0 * one)
    # |u| ≤ κ: ρ = |τ − 1{u<0}|·½u²/κ, so κ shows in the loss.
    assert not torch.allclose(one, build(kappa=0.3).loss(quantiles, quantiles, sample[:, 0] * 3.0, None).loss / 3.0)


def test_tails_are_read_from_sorted_quantiles() -> None:
    """C05."""
    critic = build(n=10)
    crossed = torch.tensor([[3.0, 1.0, 2.0, 5.0, 4.0, 9.0, 7.0, 8.0, 6.0, 10.0]])
    ordered = crossed.sort().values
    assert torch.equal(critic.risk(crossed, 0.2), critic.risk(ordered, 0.2))
    assert torch.equal(critic.quantile(crossed, 0.25), critic.quantile(ordered, 0.25))
    assert float(critic.risk(crossed, 0.2)) < 2.0


def test_a_backup_keeps_the_spread_that_a_return_through_the_mean_loses() -> None:
    """s₀ → s₁ → end, the last reward −1 or 1. The 1-step return of s₀ is γ·V(s₁) = 0; its distribution is −γ or γ."""
    after = torch.tensor([-1.0] * 16 + [1.0] * 16).view(1, 1, 32)
    reward, discount = torch.zeros(1, 1), torch.full((1, 1), 0.9)
    returns = reward + discount * after.mean(-1)
    valid, one = torch.ones(64, 1, dtype=torch.bool), torch.ones(64, 1)
    fitted = []
    for backup in (False, True):
        critic = build(backup=backup)
        critic.update_statistics(torch.tensor([[-1.0], [1.0]]).repeat(32, 1), valid)
        wanted = critic.targets(returns, reward, discount, after)[0].expand(64, *([32] if backup else []))
        optimizer = torch.optim.Adam(critic.parameters(), 0.02)
        for _ in range(400):
            prediction = critic(one)
            optimizer.zero_grad()
            critic.loss(prediction, prediction, wanted, None).loss.mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        fitted.append((critic, critic(one[:1]).detach()))
    (plain, narrow), (distribution, wide) = fitted
    assert float(plain.risk(narrow, 0.25)) == pytest.approx(0.0, abs=0.05)
    assert float(distribution.risk(wide, 0.25)) == pytest.approx(-0.9, abs=0.05)
    assert float(distribution.mean(wide)) == pytest.approx(0.0, abs=0.05)


def test_a_backup_ends_with_the_episode() -> None:
    critic = build(n=2, backup=True)
    wanted = critic.targets(
        torch.zeros(1, 2), torch.tensor([[1.0, 1.0]]), torch.tensor([[0.5, 0.0]]), torch.tensor([[[2.0, 4.0]] * 2])
    )
    assert wanted.tolist() == [[[2.0, 3.0], [1.0, 1.0]]]


def law_of(prediction: Tensor) -> tuple[Tensor, Tensor]:
    return prediction.mean(-1), prediction.std(-1, correction=0)


@pytest.mark.parametrize("mode", ["mean_only", "mean_and_variance", "per_quantile"])
def test_the_clipped_loss_is_that_of_a_prediction_within_bounds(mode: ClipMode) -> None:
    """C06: the loss names a prediction that obeys the mode's bound, found again by what it would cost."""
    critic = build(n=3, mode=mode, kappa=0.0)
    old = torch.tensor([[-1.0, 0.0, 1.0]])
    prediction, target, reach = torch.tensor([[-3.0, 1.0, 8.0]]), torch.tensor([20.0]), 0.5
    bound = {
        # mean 2 -> 0.5, shape kept; then spread √(62/3) = 4.546 -> 2·√(2/3) = 1.633; or each within ½ of its old place
        "mean_only": torch.tensor([[-4.5, -0.5, 6.5]]),
        "mean_and_variance": 0.5 + torch.tensor([[-5.0, -1.0, 6.0]]) * 1.63299 / 4.54606,
        "per_quantile": torch.tensor([[-1.5, 0.5, 1.5]]),
    }[mode]
    found = critic.loss(prediction, old, target, reach)
    torch.testing.assert_close(found.clipped, critic.loss(bound, old, target, None).loss)
    assert bool(found.active)
    (mean, spread), (old_mean, old_spread) = law_of(bound), law_of(old)
    assert float((mean - old_mean).abs()) <= reach + 1e-6
    if mode == "mean_only":
        torch.testing.assert_close(spread, law_of(prediction)[1])
    if mode == "mean_and_variance":
        torch.testing.assert_close(spread, 2.0 * old_spread)


def test_coverage_is_that_of_the_returns_below_each_quantile() -> None:
    critic = build()
    fitted = fit(critic, normal_sample())
    returns = normal_sample(400).view(100, 4)
    valid = torch.ones(100, 4, dtype=torch.bool)
    found = coverage(critic, fitted.expand(100, 4, 32), returns, valid)
    for level in (5, 25, 75, 95):
        assert found[f"risk/coverage_{level:02d}"] == pytest.approx(level / 100, abs=0.01)
    shifted = coverage(critic, fitted.expand(100, 4, 32) - 0.5, returns, valid)
    assert shifted["risk/coverage_25"] == pytest.approx(0.12, abs=0.01)  # Φ(−0.674 − 0.5)
    half = valid & (returns < 0)
    assert coverage(critic, fitted.expand(100, 4, 32), returns, half)["risk/coverage_75"] == 1.0
    assert coverage(critic, fitted.expand(100, 4, 32), returns, ~valid) == {}
