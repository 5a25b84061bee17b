"""Generated series: the same for a seed, labelled, and with the growth that their formulas say (Monte Carlo)."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from surefoot.errors import ConfigError
from surefoot.market import Prices, load_prices
from surefoot.market import generators as g
from surefoot.market.optimum import LogReturns

Vector = NDArray[np.float64]
MANY = 400_000


def simple_returns(prices: Prices) -> Vector:
    """[T − 1]: of closes."""
    returns: Vector = prices.close[1:] / prices.close[:-1] - 1
    return returns


def mean_and_error(samples: Vector, block: int = 1000) -> tuple[float, float]:
    """The mean and its standard error by means of blocks, as samples may depend on their neighbours."""
    blocks = samples[: len(samples) // block * block].reshape(-1, block).mean(axis=1)
    return float(samples.mean()), float(blocks.std(ddof=1) / math.sqrt(len(blocks)))


def assert_grows(samples: Vector, expected: float) -> None:
    mean, error = mean_and_error(samples)
    assert abs(mean - expected) < 4 * error
    assert error < 0.05 * abs(expected) + 1e-5  # else the test could not fail


@pytest.mark.parametrize("name", list(g.GENERATORS))
@pytest.mark.parametrize("ohlc", [False, True])
def test_a_seed_is_a_series_and_the_source_says_so(name: str, ohlc: bool) -> None:
    make = g.GENERATORS[name]
    one, again, other = (make(seed=seed, bars=300, ohlc=ohlc) for seed in (1, 1, 2))
    assert one.close.tobytes() == again.close.tobytes()
    assert one.fingerprint == again.fingerprint != other.fingerprint
    assert one.source.startswith(f"generated:{name}(seed=1, bars=300, ")
    assert one.instrument == f"synthetic {name}"
    assert len(one) == 300
    assert load_prices(one.source).close.tobytes() == one.close.tobytes()
    if ohlc:
        assert one.open is not None
        assert one.high is not None
        assert one.low is not None
        assert one.open[1:].tobytes() == one.close[:-1].tobytes()
        assert (one.high >= np.maximum(one.open, one.close)).all()
        assert (one.low <= np.minimum(one.open, one.close)).all()
        assert (one.high > one.low)[1:].all()
        assert (one.closes_at - one.opens_at == np.timedelta64(1, "h")).all()


@pytest.mark.parametrize("name", list(g.GENERATORS))
def test_opens_do_not_change_the_closes(name: str) -> None:
    make = g.GENERATORS[name]
    plain, bars = make(seed=3, bars=100), make(seed=3, bars=100, ohlc=True)
    assert plain.close.tobytes() == bars.close.tobytes()


def test_gbm_grows_as_its_best_position_says() -> None:
    mixture = {"drift": 2e-3, "volatility": 0.05}
    best = g.gbm_optimum(**mixture)
    fraction = float(best.position.split()[0])
    assert fraction == pytest.approx(2e-3 / 0.05**2, rel=0.02)  # μ/σ²
    assert best.growth == pytest.approx(2e-3**2 / 0.05**2 / 2, rel=0.02)  # μ²/2σ²
    returns = simple_returns(g.gbm(seed=0, bars=20_000, drift=2e-2, volatility=0.05))
    strong = g.gbm_optimum(drift=2e-2, volatility=0.05)
    assert strong.position.startswith("1 of equity")
    assert_grows(np.log1p(returns), strong.growth)
    assert strong.growth == pytest.approx(2e-2 - 0.05**2 / 2, abs=1e-12)  # all in: the mean of the log return


def test_no_other_position_grows_faster() -> None:
    mixture = g.crash_prone_returns()
    best = mixture.best_fraction()
    growths = [mixture.growth(f) for f in np.linspace(-1, 1, 201)]
    assert mixture.growth(best) >= max(growths) - 1e-12


def test_without_signal_every_position_loses() -> None:
    returns = simple_returns(g.no_signal(seed=0, bars=MANY))
    mean, error = mean_and_error(returns)
    assert abs(mean) < 4 * error
    assert g.no_signal_optimum().growth == 0
    mixture = LogReturns([1.0], [-(0.01**2) / 2], [0.01])
    assert all(mixture.growth(f) < 0 for f in (-1, -0.5, 0.5, 1))


@pytest.mark.parametrize("delay", [0, 1])
def test_mean_reversion_pays_what_the_myopic_position_says(delay: int) -> None:
    mixture: dict[str, Any] = {"persistence": 0.8, "volatility": 0.05}
    prices = g.mean_reversion(seed=0, bars=MANY, **mixture)
    x = np.log(prices.close / 100)
    pull = (mixture["persistence"] - 1) * mixture["persistence"] ** delay
    std = mixture["volatility"] * math.sqrt(1 + (delay > 0) * (mixture["persistence"] - 1) ** 2)
    grid = np.linspace(x.min(), x.max(), 400)
    best = [LogReturns([1.0], [pull * level], [std]).best_fraction() for level in grid]
    positions = np.interp(x[: len(x) - 1 - delay], grid, best)
    growth = np.log1p(positions * simple_returns(prices)[delay:])
    assert_grows(growth, g.mean_reversion_optimum(delay=delay, **mixture).growth)


def test_nobody_beats_the_bound_of_regimes() -> None:
    bound = g.regime_switching_optimum(drift=5e-3, volatility=0.02)
    prices = g.regime_switching(seed=0, bars=MANY, drift=5e-3, volatility=0.02, persistence=0.99)
    returns = simple_returns(prices)
    trend = np.sign(np.convolve(returns, np.ones(30), "valid"))[:-1]
    follower, _ = mean_and_error(np.log1p(trend * returns[30:]))
    assert bound.kind == "upper bound"
    assert 0.5 * bound.growth < follower < bound.growth


def test_crash_prone_growth_and_tail() -> None:
    mixture = g.crash_prone_returns(drift=1.5e-3)
    returns = simple_returns(g.crash_prone(seed=0, bars=MANY, drift=1.5e-3))
    assert_grows(np.log1p(0.5 * returns), mixture.growth(0.5))
    for fraction in (0.5, -0.5):
        tail = np.sort(np.log1p(fraction * returns))[: int(0.01 * len(returns))].mean()
        assert mixture.cvar(fraction, 0.01) == pytest.approx(tail, rel=0.03)
    assert g.crash_prone_optimum(drift=1.5e-3).growth == pytest.approx(mixture.growth(mixture.best_fraction()))


def test_garch_has_its_variance_and_its_clusters() -> None:
    returns = np.diff(np.log(g.garch(seed=0, bars=MANY).close))
    assert returns.std() == pytest.approx(0.01, rel=0.05)
    squares = returns**2 - (returns**2).mean()
    assert float(squares[1:] @ squares[:-1] / (squares @ squares)) > 0.1
    assert g.garch_optimum().kind == "lower bound"


@pytest.mark.parametrize("ohlc", [False, True])
def test_the_planted_signal_pays_after_the_fill_and_not_before(ohlc: bool) -> None:
    prices = g.planted_signal(seed=0, bars=MANY, ohlc=ohlc, persistence=0.5)
    signal, returns = prices.extra["signal"], simple_returns(prices)
    delay = 0 if ohlc else 1
    earned = signal[: len(returns) - delay] * returns[delay:]
    assert_grows(np.log1p(earned), g.planted_signal_optimum().growth)
    for wrong in (1 - delay, 2):  # with a signal that does not last, no other return is told
        mean, error = mean_and_error(signal[: len(returns) - wrong] * returns[wrong:])
        assert abs(mean) < 4 * error
    before, error = mean_and_error(signal[1:] * returns)
    assert abs(before) < 4 * error


@pytest.mark.parametrize("cost_rate", [0.0, 1e-3])
def test_whoever_follows_the_signal_has_the_growth_that_is_said(cost_rate: float) -> None:
    """A slow account: trade to ±1 of equity at the close, pay, then take the return."""
    prices = g.planted_signal(seed=1, bars=100_000, ohlc=True, strength=4e-3)
    growth = np.empty(len(prices) - 1)
    position = float(prices.extra["signal"][0])
    for t, ratio in enumerate((prices.close[1:] / prices.close[:-1]).tolist()):
        equity = 1 + position * (ratio - 1)
        held = position * ratio
        target = float(prices.extra["signal"][t + 1]) * equity
        after = equity - cost_rate * abs(target - held)
        growth[t] = math.log(after)
        position = float(prices.extra["signal"][t + 1])
    expected = g.planted_signal_follower(strength=4e-3, cost_rate=cost_rate)
    assert_grows(growth, expected.growth)
    assert expected.growth <= g.planted_signal_optimum(strength=4e-3).growth + 1e-12


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("generated:gmb(seed=0)", "did you mean 'gbm'"),
        ("generated:gbm(bars=10)", "say seed="),
        ("generated:gbm(seed=0, bar=10)", "did you mean 'bars'"),
        ("generated:gbm(seed=0, bars=1e9)", "not of type int"),
        ("generated:gbm(seed=0, bars=10**9)", "not of type int"),
        ("generated:gbm(seed=0, bars=99999999999)", "must be from 2"),
        ("generated:gbm(seed=__import__('os').getpid())", "not of type int"),
        ("generated:gbm(seed=True)", "not of type int"),
        ("generated:gbm(seed=0, seed=1)", "given twice"),
        ("generated:gbm", "not of the form"),
        ("generated:gbm(seed=0, volatility=-1)", "volatility"),
        ("generated:mean_reversion(seed=0, persistence=1.0)", "persistence"),
        ("generated:gbm(seed=0, drift=1.0)", "beyond what a number holds"),
    ],
)
def test_the_text_form_is_strict(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_prices(text)


def test_the_text_form_takes_every_argument() -> None:
    prices = load_prices("generated:planted_signal(seed=7, bars=50, strength=1e-3, ohlc=True)")
    assert prices.has_ohlc
    assert list(prices.extra) == ["signal"]
    known: dict[str, Any] = dict(inspect.signature(g.planted_signal).parameters)
    assert all(f"{name}=" in prices.source for name in known)
