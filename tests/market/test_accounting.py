"""The accounts: every cent is accounted for, in every mode (E02, E03)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market.bars import DAY, HOUR, make_prices
from reference.market import Account
from surefoot.market.costs import KINDS, Costs
from surefoot.market.env import Market
from surefoot.market.prices import Prices

PLAIN: dict[str, Any] = {"features": ["return(1)"], "random_start": False, "seed": 0}
ALL = Costs(
    half_spread_bps=2.0,
    commission_bps=1.5,
    commission_per_unit=0.01,
    commission_minimum=1.0,
    slippage_bps=1.0,
    borrow_rate_per_year=0.08,
    funding_rate_per_year=0.05,
)
rates = st.floats(0.0, 100.0)
some_costs = st.builds(
    Costs,
    half_spread_bps=rates,
    commission_bps=rates,
    commission_per_unit=st.floats(0.0, 0.5),
    commission_minimum=st.floats(0.0, 20.0),
    slippage_bps=rates,
    borrow_rate_per_year=st.floats(0.0, 1.0),
    funding_rate_per_year=st.floats(-1.0, 1.0),
)


def series(*closes: float, opens: tuple[float, ...] | None = None, step: int = DAY) -> Prices:
    """Bars of given closes; opened three quarters of a step before if opens are given."""
    prices = make_prices(len(closes), ohlc=opens is not None, step=step)
    close = np.array(closes)
    if opens is None:
        return replace(prices, close=close)
    opened = np.array(opens)
    return replace(
        prices, close=close, open=opened, high=np.maximum(opened, close) + 1, low=np.minimum(opened, close) - 1
    )


def run(market: Market, targets: list[float]) -> list[dict[str, Any]]:
    """Infos of all steps of all accounts that do the same."""
    market.reset()
    return [market.step(np.full((market.num_envs, 1), target, np.float32))[4] for target in targets]


def one(value: Any) -> float:
    return float(value[0])


# Hand-worked numbers. The feature return(1) has its first value at bar 1, so the first decision is at the close of that
# bar and the first fill in bar 2.


def test_close_only_data_fill_at_the_next_close() -> None:
    prices = series(50.0, 100.0, 200.0, 300.0, 300.0)
    market = Market(prices, 1, costs=Costs(), capital=1000.0, **PLAIN)
    first, second = run(market, [1.0, 1.0])
    # Decided at 100, filled at 200: the rise from 100 to 200 is not earned.
    assert one(first["equity"]) == 1000.0
    assert one(first["units"]) == pytest.approx(5.0)
    assert one(second["equity"]) == pytest.approx(1500.0)


def test_ohlc_data_fill_at_the_next_open_and_are_marked_at_the_close() -> None:
    prices = series(50.0, 100.0, 120.0, 130.0, 130.0, opens=(50.0, 99.0, 110.0, 125.0, 130.0))
    market = Market(prices, 1, costs=Costs(), capital=1000.0, **PLAIN)
    first, second = run(market, [1.0, 0.0])
    assert one(first["units"]) == pytest.approx(1000 / 110)
    assert one(first["equity"]) == pytest.approx(1000 * 120 / 110)
    # Sold at the open of 125.
    assert one(second["equity"]) == pytest.approx(1000 * 125 / 110)
    assert one(second["units"]) == 0.0


def test_spread_commission_and_slippage_by_hand() -> None:
    prices = series(100.0, 100.0, 100.0, 100.0, 100.0)
    costs = Costs(half_spread_bps=50.0, commission_bps=30.0, slippage_bps=20.0)  # 1 % in all
    market = Market(prices, 1, costs=costs, capital=1010.0, ruin=0.0, **PLAIN)
    bought, sold = run(market, [1.0, 0.0])
    # 1000 are bought and 10 paid for it, so that all of the 1000 that are left is in the position.
    assert one(bought["equity"]) == pytest.approx(1000.0)
    assert one(bought["cash"]) == pytest.approx(0.0, abs=1e-9)
    assert {k: one(v) for k, v in bought["fees"].items()} == pytest.approx(
        {"spread": 5.0, "commission": 3.0, "slippage": 2.0, "borrow": 0.0, "funding": 0.0}
    )
    assert one(sold["equity"]) == pytest.approx(990.0)
    assert sum(one(v) for v in sold["fees"].values()) == pytest.approx(10.0)


def test_slippage_is_adverse_both_ways() -> None:
    prices = series(100.0, 100.0, 100.0, 100.0, 100.0)
    for target in (1.0, -1.0):
        infos = run(Market(prices, 1, costs=Costs(slippage_bps=100.0), ruin=0.0, **PLAIN), [target, 0.0])
        assert [one(info["fees"]["slippage"]) > 0.0 for info in infos] == [True, True]
        assert one(infos[1]["equity"]) < one(infos[0]["equity"]) < 10_000.0


def test_commission_by_unit_and_its_minimum_by_hand() -> None:
    prices = series(20.0, 20.0, 20.0, 20.0, 20.0, 20.0)
    costs = Costs(commission_per_unit=0.1, commission_minimum=4.0)  # 0.1 per unit of 20 is half a percent
    market = Market(prices, 1, costs=costs, capital=1005.0, **PLAIN)
    full, half, rest = run(market, [1.0, 0.5, 0.5])
    assert one(full["units"]) == pytest.approx(50.0)
    assert one(full["fees"]["commission"]) == pytest.approx(5.0)
    # To 0.5: d of 1000 is sold, 2.5 % less than the minimum, so 4 are paid: 1000 − d = 0.5·(1000 − 4), d = 502.
    assert one(half["fees"]["commission"]) == pytest.approx(4.0)
    assert one(half["units"]) == pytest.approx(498.0 / 20.0)
    assert one(half["equity"]) == pytest.approx(996.0)
    # Nothing to trade, nothing to pay.
    assert one(rest["fees"]["commission"]) == 0.0
    assert one(rest["equity"]) == pytest.approx(996.0)


def test_borrow_accrues_with_elapsed_time_by_hand() -> None:
    prices = series(*[100.0] * 12)
    market = Market(prices, 1, costs=Costs(borrow_rate_per_year=0.365), capital=1000.0, **PLAIN)
    infos = run(market, [-1.0, -1.0, -1.0])
    # 0.1 % a day of a short position that the target keeps at the size of the equity.
    assert [one(info["equity"]) for info in infos] == pytest.approx([1000.0, 999.0, 998.001])
    assert [one(info["fees"]["borrow"]) for info in infos] == pytest.approx([0.0, 1.0, 0.999])
    # A gap of three days costs three days.
    times = prices.closes_at.copy()
    times[4:] += np.timedelta64(2 * DAY, "ns")
    gap = replace(prices, closes_at=times, opens_at=times)
    infos = run(Market(gap, 1, costs=Costs(borrow_rate_per_year=0.365), capital=1000.0, **PLAIN), [-1.0, -1.0, -1.0])
    assert [one(info["fees"]["borrow"]) for info in infos] == pytest.approx([0.0, 1.0, 2.997])


def test_funding_is_paid_by_long_and_received_by_short_positions() -> None:
    prices = series(*[100.0] * 8)
    for target, sign in ((1.0, 1.0), (-1.0, -1.0), (0.0, 0.0)):
        infos = run(Market(prices, 1, costs=Costs(funding_rate_per_year=0.365), capital=1000.0, **PLAIN), [target] * 2)
        assert one(infos[1]["fees"]["funding"]) == pytest.approx(sign * 1.0)
        assert one(infos[1]["fees"]["borrow"]) == 0.0
        assert one(infos[1]["equity"]) == pytest.approx(1000.0 - sign)


def test_open_and_close_share_the_time_of_a_bar() -> None:
    """Old units are held until the open, new ones from then on."""
    prices = series(*[100.0] * 8, opens=(100.0,) * 8)  # opens 18 hours before its close, 6 hours after the last close
    infos = run(Market(prices, 1, costs=Costs(funding_rate_per_year=0.365), capital=1000.0, **PLAIN), [1.0, 0.0])
    assert one(infos[0]["fees"]["funding"]) == pytest.approx(0.75)
    assert one(infos[1]["fees"]["funding"]) == pytest.approx(0.25, rel=1e-3)


@given(
    seed=st.integers(0, 2**31),
    costs=some_costs,
    ohlc=st.booleans(),
    mode=st.sampled_from(["target", "long_only", "levels", "limits", "band", "multiplied"]),
)
@settings(max_examples=60, deadline=None)
def test_every_change_of_equity_is_accounted_for(seed: int, costs: Costs, ohlc: bool, mode: str) -> None:
    rng = np.random.default_rng(seed)
    prices = make_prices(60, seed % 1000, ohlc=ohlc, volatility=0.03)
    modes: dict[str, dict[str, Any]] = {
        "target": {},
        "long_only": {"allow_short": False},
        "levels": {"action": "levels", "levels": (-1.0, -0.5, 0.0, 0.3, 1.0)},
        "limits": {"no_trade": ["03:00-07:00"], "position_limits": {"10:00-15:00": 0.2}},
        "band": {"rebalance_band": 0.1},
        "multiplied": {"cost_multiplier": (0.5, 2.0)},
    }
    n = 5
    market = Market(prices, n, costs=costs, features=["return(1)"], episode_length=30, **modes[mode])
    market.reset(seed=seed)
    state = market.state_dict()
    for _ in range(45):
        action = rng.integers(0, 5, n) if mode == "levels" else rng.uniform(-1.2, 1.2, (n, 1)).astype(np.float32)
        before, state_bar = state, state["bar"]
        _, _, terminated, truncated, info = market.step(action)
        state = market.state_dict()
        last = info.get("final_info", info)
        bar = state_bar + 1
        fill = prices.close[bar] if prices.open is None else prices.open[bar]
        gain = before["units"] * (fill - prices.close[state_bar]) + last["units"] * (prices.close[bar] - fill)
        paid = sum(last["fees"][kind] for kind in KINDS)
        assert last["equity"] - before["equity"] == pytest.approx(gain - paid, abs=1e-9 * 10_000)
        assert last["equity"] == pytest.approx(last["cash"] + last["units"] * prices.close[bar], abs=1e-8)
        assert all((last["fees"][kind] >= 0.0).all() for kind in KINDS if kind != "funding")
        np.testing.assert_array_equal(terminated, last["equity"] <= 1000.0)
        done = terminated | truncated
        np.testing.assert_array_equal(state["equity"], np.where(done, 10_000.0, last["equity"]))


@given(seed=st.integers(0, 2**31), costs=some_costs, ohlc=st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_kernel_equals_its_slow_twin(seed: int, costs: Costs, ohlc: bool) -> None:
    rng = np.random.default_rng(seed)
    prices = make_prices(40, seed % 1000, ohlc=ohlc, volatility=0.02)
    market = Market(prices, 1, costs=costs, ruin=0.0, **PLAIN)
    market.reset()
    account = Account(prices, costs, 10_000.0, 1)
    for _ in range(38):
        target = float(np.float32(rng.choice([-1.0, -0.5, 0.0, 0.25, 1.0, rng.uniform(-1, 1)])))
        account.step(target)
        _, _, terminated, _, info = market.step(np.array([[target]], np.float32))
        info = info.get("final_info", info)
        assert one(info["equity"]) == pytest.approx(account.equity(), rel=1e-9, abs=1e-6)
        assert one(info["units"]) == pytest.approx(account.units, rel=1e-7, abs=1e-7)
        for kind in KINDS:
            assert one(info["fees"][kind]) == pytest.approx(account.fees[kind], rel=1e-7, abs=1e-6), kind
        if terminated[0]:
            break


@given(seed=st.integers(0, 2**31), costs=some_costs, ohlc=st.booleans())
@settings(max_examples=30, deadline=None)
def test_fees_of_trading_never_make_cash_negative(seed: int, costs: Costs, ohlc: bool) -> None:
    free_to_hold = replace(costs, borrow_rate_per_year=0.0, funding_rate_per_year=0.0)
    market = Market(make_prices(50, seed % 97, ohlc=ohlc), 8, costs=free_to_hold, allow_short=False, **PLAIN)
    market.reset(seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        targets = rng.choice([0.0, 0.5, 0.999, 1.0], (8, 1)).astype(np.float32)
        assert (market.step(targets)[4]["cash"] >= -1e-8).all()


def test_the_target_is_reached_exactly_after_the_fees() -> None:
    prices = make_prices(60)
    market = Market(prices, 3, costs=Costs(half_spread_bps=30.0, commission_minimum=5.0), **PLAIN)
    market.reset()
    for target in (1.0, -1.0, 0.3, -0.6):
        info = market.step(np.full((3, 1), target, np.float32))[4]
        assert info["position"] == pytest.approx(np.full(3, np.float32(target)), abs=1e-9)


def test_a_flat_market_pays_nothing_and_charges_only_costs() -> None:  # E01
    flat = replace(make_prices(200), close=np.full(200, 42.0))
    rng = np.random.default_rng(0)
    idle = Market(flat, 4, costs=ALL, **PLAIN)
    idle.reset()
    for _ in range(30):
        assert (idle.step(np.zeros((4, 1), np.float32))[1] == 0.0).all()
    free = Market(flat, 4, costs=Costs(), **PLAIN)
    free.reset()
    for _ in range(30):
        assert free.step(rng.uniform(-1, 1, (4, 1)).astype(np.float32))[1] == pytest.approx(np.zeros(4), abs=1e-12)
    costly = Market(flat, 4, costs=ALL, **PLAIN)
    costly.reset()
    total, paid = np.zeros(4), np.zeros(4)
    for _ in range(30):
        _, reward, _, _, info = costly.step(rng.uniform(-1, 1, (4, 1)).astype(np.float32))
        total += reward
        paid += sum(info["fees"].values())
        assert info["equity"] == pytest.approx(10_000.0 - paid, abs=1e-6)  # each fee is paid once
        assert np.exp(total) == pytest.approx(info["equity"] / 10_000.0)  # and felt once


def test_ruin_terminates_and_the_end_of_the_span_truncates() -> None:
    prices = series(100.0, 100.0, 100.0, 250.0, 100.0, 100.0)
    market = Market(prices, 2, costs=Costs(), capital=1000.0, **PLAIN)
    market.reset()
    flags = []
    for _ in range(4):
        _, reward, terminated, truncated, info = market.step(np.array([[-1.0], [0.0]], np.float32))
        flags.append((terminated.tolist(), truncated.tolist()))
        if terminated[0]:
            assert reward[0] == pytest.approx(np.log(1e-3))
            assert info["final_info"]["equity"][0] == pytest.approx(-500.0)
            assert info["equity"][0] == 1000.0
    assert flags[:2] == [([False, False], [False, False]), ([True, False], [False, False])]
    assert flags[3] == ([True, False], [False, True])  # the first account went short once more


def test_a_short_position_that_a_gap_ruins_is_closed_at_the_open() -> None:
    prices = series(*[100.0] * 3, 300.0, 400.0, opens=(100.0, 100.0, 100.0, 300.0, 400.0))
    infos = run(Market(prices, 1, costs=Costs(), capital=1000.0, **PLAIN), [-1.0, -1.0])
    final = infos[1]["final_info"]
    assert one(final["units"]) == 0.0
    assert one(final["equity"]) == pytest.approx(-1000.0)


def test_time_is_only_that_of_the_data() -> None:  # E09
    """The same bars a hundred years later, and hourly bars that are called daily: only elapsed time counts."""

    def fees(prices: Prices) -> list[float]:
        infos = run(Market(prices, 1, costs=ALL, **PLAIN), [-1.0, -0.5, 0.7, -0.2])
        return [one(info["fees"]["borrow"]) for info in infos]

    here = make_prices(30, step=HOUR)
    century = np.timedelta64(36_525 * DAY, "ns")
    later = replace(here, closes_at=here.closes_at + century, opens_at=here.opens_at + century)
    assert fees(later) == fees(here)
    daily = make_prices(30, step=DAY)
    assert fees(daily)[1] == pytest.approx(24 * fees(here)[1], rel=1e-3)
