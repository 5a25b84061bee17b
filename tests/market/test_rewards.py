"""Rewards by component, costs for constraints, and that trading pays exactly where there is something to earn (E01)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from market.bars import make_prices
from surefoot.market.costs import Costs
from surefoot.market.env import Market
from surefoot.market.rewards import REWARDS

PLAIN: dict[str, Any] = {"features": ["return(1)"], "random_start": False}


def market_of(closes: list[float], **more: Any) -> Market:
    market = Market(replace(make_prices(len(closes)), close=np.array(closes)), 1, **PLAIN, **more)
    market.reset()
    return market


def step(market: Market, target: float) -> tuple[float, dict[str, Any]]:
    _, reward, _, _, info = market.step(np.array([[target]], np.float32))
    return float(reward[0]), info.get("final_info", info)


def test_log_growth_is_net_of_fees_by_hand() -> None:
    market = market_of([100.0, 100.0, 100.0, 110.0, 110.0], costs=Costs(half_spread_bps=100.0))
    first, _ = step(market, 1.0)
    assert first == pytest.approx(-np.log(1.01))
    second, info = step(market, 1.0)
    assert second == pytest.approx(np.log(1.1))
    assert info["rewards"]["log_growth"][0] == second


def test_components_add_up_and_are_told_apart() -> None:
    closes = [100.0, 100.0, 100.0, 80.0, 90.0, 70.0, 70.0]
    reward = ["log_growth", "drawdown(threshold=0.1, coef=2)", "variance(0.5)", "turnover(3)"]
    market = market_of(closes, costs=Costs(commission_bps=100.0), reward=reward)
    seen = []
    for target in (1.0, 1.0, 1.0, 1.0, 0.0):
        total, info = step(market, target)
        parts = {name: float(column[0]) for name, column in info["rewards"].items()}
        assert total == pytest.approx(sum(parts.values()))
        assert parts["variance"] == pytest.approx(-0.5 * parts["log_growth"] ** 2)
        seen.append(parts)
    # Bought for 1/1.01 of the equity; from then on all of it is in the position.
    assert seen[0]["turnover"] == pytest.approx(-3 * 0.01 / 1.01)
    assert seen[0]["drawdown"] == 0.0  # 1 % of fees is within the threshold
    deep = 1 - 0.8 / 1.01
    assert seen[1]["drawdown"] == pytest.approx(-2 * (deep - 0.1))
    assert seen[2]["drawdown"] == 0.0  # a recovery is not punished
    deeper = 1 - 0.7 / 1.01
    assert seen[3]["drawdown"] == pytest.approx(-2 * (deeper - (1 - 0.9 / 1.01)))
    assert seen[1]["turnover"] == pytest.approx(0.0, abs=1e-12)


def test_differential_sharpe_by_hand() -> None:
    market = market_of([100.0, 100.0, 100.0, 110.0, 99.0, 99.0], costs=Costs(), reward="differential_sharpe(0.1, 0.01)")
    a = b = 0.0
    growths = [0.0, np.log(1.1), np.log(0.9)]
    for growth in growths:
        variance = max(b - a * a, 0.01**2)
        d_a, d_b = growth - a, growth**2 - b
        expected = 0.1 * ((variance + a * a) * d_a - 0.5 * a * d_b) / variance**1.5
        assert step(market, 1.0)[0] == pytest.approx(expected, abs=1e-12)
        a, b = a + 0.1 * d_a, b + 0.1 * d_b


def test_differential_sharpe_is_the_derivative_of_the_sharpe_ratio() -> None:
    """Once the deviation is above its floor: η·dS/dη at 0 of the ratio A/√(B − A²) with A + ηΔA and B + ηΔB."""
    closes = (100.0 * np.exp(np.cumsum(0.02 * np.random.default_rng(0).standard_normal(300)))).tolist()
    market = market_of(closes, costs=Costs(), reward="differential_sharpe(0.05, 1e-6)")
    a = b = 0.0
    for i in range(200):
        before = (a, b)
        reward, info = step(market, 1.0)
        growth = np.log(closes[i + 2] / closes[i + 1]) if i else 0.0
        a, b = a + 0.05 * (growth - a), b + 0.05 * (growth**2 - b)

        def sharpe(eta: float, before: tuple[float, float] = before, growth: float = growth) -> float:
            mean = before[0] + eta * (growth - before[0])
            return float(mean / np.sqrt(before[1] + eta * (growth**2 - before[1]) - mean**2))

        if i > 50:
            slope = (sharpe(1e-6) - sharpe(-1e-6)) / 2e-6
            assert reward == pytest.approx(0.05 * slope, rel=1e-4, abs=1e-7)
            assert info["rewards"]["differential_sharpe"][0] == reward


@pytest.mark.parametrize("name", sorted(REWARDS))
def test_flat_prices_and_no_trade_pay_exactly_nothing(name: str) -> None:
    market = market_of([7.0] * 40, costs=Costs(half_spread_bps=5.0, borrow_rate_per_year=0.1), reward=name)
    assert [step(market, 0.0)[0] for _ in range(30)] == [0.0] * 30


@pytest.mark.parametrize("name", sorted(REWARDS))
def test_every_component_says_something(name: str) -> None:
    rng = np.random.default_rng(0)
    closes = (100.0 * np.exp(np.cumsum(0.05 * rng.standard_normal(60)))).tolist()
    market = market_of(closes, costs=Costs(half_spread_bps=50.0), reward=name)
    assert any(step(market, float(rng.uniform(-1, 1)))[0] != 0.0 for _ in range(50))


def test_turnover_is_felt_at_what_it_costs() -> None:
    """Ten times the costs, ten times the term; without costs none (E01)."""

    def term(bps: float) -> float:
        _, info = step(market_of([100.0] * 9, costs=Costs(half_spread_bps=bps), reward=["log_growth", "turnover"]), 1.0)
        return float(info["rewards"]["turnover"][0])

    assert term(0.0) == 0.0
    assert term(10.0) == pytest.approx(10 * term(1.0), rel=1e-2)
    assert term(1.0) == pytest.approx(-1e-4, rel=1e-3)


def total(market: Market, rule: Any, steps: int) -> float:
    """Summed reward of a rule that is told the newest value of the extra column."""
    gained, signal = 0.0, market.prices.extra["signal"]
    bar = int(market.state_dict()["bar"][0])
    for _ in range(steps):
        gained += step(market, rule(float(signal[bar])))[0]
        bar += 1
    return gained


def test_trading_pays_on_a_planted_signal_and_costs_where_there_is_none() -> None:
    rng = np.random.default_rng(1)
    n, costs = 1500, Costs(half_spread_bps=4.0)
    signal = rng.choice([-1.0, 1.0], n)
    # Decided at the close of t, filled at the close of t + 1: the signal of t tells the move from t + 1 to t + 2.
    moves = 0.002 * rng.standard_normal(n)
    planted = moves.copy()
    planted[2:] += 0.002 * signal[:-2]
    for returns, better in ((planted, True), (moves, False)):
        prices = replace(make_prices(n), close=100.0 * np.exp(np.cumsum(returns)), extra={"signal": signal})
        gained = []
        for rule in (lambda s: s, lambda s: 0.0):
            market = Market(prices, 1, costs=costs, features=["column('signal')"], random_start=False)
            market.reset()
            gained.append(total(market, rule, n - 10))
        assert gained[1] == 0.0
        assert (gained[0] > 1.0) == better
        assert (gained[0] < -0.2) == (not better)


def test_costs_for_constraints() -> None:
    closes = [100.0, 100.0, 100.0, 80.0, 90.0, 90.0]
    for cost, expected in (
        ("drawdown:0.1", [0.0, 0.1, 0.0, 0.0]),
        ("drawdown(0.05)", [0.0, 0.15, 0.05, 0.05]),
        ("turnover", [1.0, 0.0, 0.0, 1.0]),
        ("exposure", [1.0, 1.0, 1.0, 0.0]),
    ):
        market = market_of(closes, costs=Costs(), cost=cost)
        found = [float(step(market, target)[1]["cost"][0]) for target in (1.0, 1.0, 1.0, 0.0)]
        assert found == pytest.approx(expected, abs=1e-9), cost
    assert "cost" not in step(market_of(closes), 1.0)[1]


def test_small_trades_are_left_out_within_the_band() -> None:
    market = market_of([100.0, 100.0, 100.0, 104.0, 130.0, 130.0], costs=Costs(), rebalance_band=0.05)
    units = [float(step(market, 0.5)[1]["units"][0]) for _ in range(3)]
    assert units[1] == units[0]  # 0.5 has drifted to 0.51
    assert units[2] < units[1]  # and to more than 0.55
