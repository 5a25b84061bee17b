"""The classical rules, one by one and by the figures that they are known for."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from surefoot.errors import ConfigError
from surefoot.hedging.black_scholes import call_delta, call_gamma, call_price
from surefoot.hedging.dynamics import BinomialTree, BlackScholes, Dynamics, Floats, Heston
from surefoot.hedging.evaluation import cvar_loss, cvar_standard_error, evaluate_strategy
from surefoot.hedging.heston_hedge import ModelHedge, Sensitivities
from surefoot.hedging.heston_price import call_price as heston_price
from surefoot.hedging.observation import Units
from surefoot.hedging.strategies import Band, Delta, NoHedge, Strategy, TreeDelta, WhalleyWilmott

PATHS = 30_000


def seen(dynamics: Dynamics, spot: float, day: int, held: float, variance: float = 0.04) -> npt.NDArray[np.float32]:
    state = np.array([[spot], [variance], [0.0]])[: 3 if dynamics.has_variance else 1]
    position = np.array([[held]] + [[0.0]] * (len(dynamics.position_limits) - 1))
    return Units(dynamics).encode(state, np.array([day]), position, np.zeros(1))


def test_black_scholes_by_the_formula_and_its_derivatives() -> None:
    spot, tau, step = np.array([95.0, 100.0, 108.0]), np.array([0.05, 0.01, 0.08]), 1e-3
    for s, t, price in zip(spot, tau, call_price(spot, 100.0, 0.2, tau), strict=True):
        d1 = (math.log(s / 100.0) + 0.02 * t) / (0.2 * math.sqrt(t))
        cdf = NormalDist().cdf
        assert price == pytest.approx(s * cdf(d1) - 100.0 * cdf(d1 - 0.2 * math.sqrt(t)), rel=1e-12)
    up, at, down = (call_price(spot + h, 100.0, 0.2, tau) for h in (step, 0.0, -step))
    np.testing.assert_allclose(call_delta(spot, 100.0, 0.2, tau), (up - down) / (2 * step), rtol=1e-5)
    np.testing.assert_allclose(call_gamma(spot, 100.0, 0.2, tau), (up - 2 * at + down) / step**2, rtol=1e-3, atol=1e-6)


def test_the_band_trades_to_its_nearest_edge_only() -> None:
    dynamics = BlackScholes()
    delta = float(Delta(dynamics)(seen(dynamics, 101.0, 10, 0.0))[0, 0])
    band = Band(dynamics, 0.1)
    for held, expected in [
        (0.0, delta - 0.1),
        (delta - 0.05, delta - 0.05),
        (delta + 0.07, delta + 0.07),
        (1.0, delta + 0.1),
    ]:
        assert band(seen(dynamics, 101.0, 10, held))[0, 0] == pytest.approx(expected, abs=1e-6)
    assert band(seen(dynamics, 130.0, 29, 1.0))[0, 0] == pytest.approx(1.0)


def test_whalley_wilmott_by_hand() -> None:
    """S = 100 on day 0: Γ = φ(d₁)/(100·σ√T), half-width (1.5·0.01·100·Γ²/λ)^⅓."""
    dynamics = BlackScholes()
    deviation = 0.2 * math.sqrt(30 / 365)
    gamma = NormalDist().pdf(deviation / 2) / (100.0 * deviation)
    for risk_aversion in (1.0, 8.0):
        width = (1.5 * 0.01 * 100.0 * gamma**2 / risk_aversion) ** (1 / 3)
        rule = WhalleyWilmott(dynamics, 0.01, risk_aversion)
        assert rule(seen(dynamics, 100.0, 0, 0.0))[0, 0] == pytest.approx(
            NormalDist().cdf(deviation / 2) - width, abs=1e-6
        )


def test_without_costs_whalley_wilmott_is_delta() -> None:
    dynamics = BlackScholes()
    observation = np.concatenate([seen(dynamics, spot, 12, 0.3) for spot in (92.0, 100.0, 107.0)])
    np.testing.assert_allclose(WhalleyWilmott(dynamics, 0.0)(observation), Delta(dynamics)(observation), rtol=1e-12)


BS = BlackScholes()


@pytest.mark.parametrize(
    ("strategy", "cost_rate", "level", "published"),
    [
        (Delta(BS), 0.01, 0.95, 4.736),
        (Delta(BS), 0.01, 0.50, 3.451),
        (WhalleyWilmott(BS, 0.01), 0.01, 0.95, 3.721),
        (WhalleyWilmott(BS, 0.01), 0.01, 0.99, 4.229),
        (Delta(BS), 0.0, 0.95, 0.830),
        (Delta(BS), 0.001, 0.95, 1.188),
        (NoHedge(BS), 0.0, 0.95, 10.13),
    ],
)
def test_figures_that_were_measured_elsewhere(
    strategy: Strategy, cost_rate: float, level: float, published: float
) -> None:
    pnl = evaluate_strategy(strategy, {"cost_rate": cost_rate}, PATHS, seed=21)
    # The figure was measured too, on 10^5 paths or more: a part of its error adds to ours.
    tolerance = 4.0 * cvar_standard_error(pnl, level) * math.sqrt(1.0 + PATHS / 100_000)
    assert cvar_loss(pnl, level) == pytest.approx(published, abs=tolerance)


def test_the_tree_is_replicated_exactly() -> None:
    tree = BinomialTree()
    pnl = evaluate_strategy(TreeDelta(tree), {"dynamics": tree}, 2_000)
    assert np.abs(pnl).max() < 1e-10
    wrong = evaluate_strategy(Delta(tree), {"dynamics": tree}, 2_000)
    assert np.abs(wrong).max() > 0.01


def test_the_heston_sensitivities_are_derivatives_of_the_price() -> None:
    """In V at the money by differences of the price; in S by homogeneity, as the slope of the integral over x."""
    parameters, tau, step = Heston().parameters, 20 / 365, 1e-5
    variances = np.array([0.02, 0.04, 0.3])
    x = np.array([-1e-4, 0.0, 1e-4])
    _, vega = Sensitivities(parameters, variances, x).at(tau)
    for i, variance in enumerate(variances.tolist()):
        up, down = (heston_price(parameters, tau, variance + h) for h in (step, -step))
        assert vega[i, 1] == pytest.approx((up - down) / (2 * step), rel=1e-4)
    # Mixed second derivatives agree, so the two tables belong to one price: ∂Δ/∂V = ∂vega/∂S.
    delta_up, delta_down = (Sensitivities(parameters, variances + h, x).at(tau)[0][:, 1] for h in (1e-4, -1e-4))
    slope = (vega[:, 2] - vega[:, 0]) / (np.exp(x[2]) - np.exp(x[0]))
    np.testing.assert_allclose((delta_up - delta_down) / 2e-4, slope, rtol=2e-3, atol=2e-3)
    far = Sensitivities(parameters, variances, np.array([-0.37, 0.37])).at(1 / 365)[0]
    np.testing.assert_allclose(far[:2], [[0.0, 1.0]] * 2, atol=1e-3)


def test_the_model_hedge_takes_most_of_the_risk_in_heston_and_the_stock_alone_does_not() -> None:
    heston = Heston()
    both = ModelHedge(heston)

    def stock_alone(observation: npt.NDArray[np.float32]) -> Floats:
        held: Floats = both(observation) * np.array([1.0, 0.0])
        return held

    strategies: dict[str, Any] = {"none": NoHedge(heston), "stock": stock_alone, "both": both}
    losses = {
        name: cvar_loss(evaluate_strategy(each, {"dynamics": "heston"}, PATHS), 0.5)
        for name, each in strategies.items()
    }
    assert losses["both"] < 0.25 * losses["stock"] < 0.25 * losses["none"]
    assert losses["both"] < 0.2531 + 0.02, "what Buehler et al. report for a network trained on it"


def test_rules_for_one_instrument_refuse_two() -> None:
    for make in (Delta, lambda d: Band(d, 0.1), lambda d: WhalleyWilmott(d, 0.01)):
        with pytest.raises(ConfigError, match="Heston has 2 instruments"):
            make(Heston())
    with pytest.raises(ConfigError, match=r"width = 1\.5"):
        Band(BS, 1.5)
    with pytest.raises(ConfigError, match="risk_aversion = 0"):
        WhalleyWilmott(BS, 0.01, 0.0)
