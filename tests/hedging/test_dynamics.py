"""Prices are martingales with the prices of calls that theory says."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reference.hedging import heston_spot
from surefoot.errors import ConfigError
from surefoot.hedging.dynamics import BinomialTree, BlackScholes, Dynamics, Floats, Heston, dynamics_named

ALL = [BinomialTree(), BlackScholes(), Heston()]
every_dynamics = pytest.mark.parametrize("dynamics", ALL, ids=lambda d: type(d).__name__)


def at_maturity(dynamics: Dynamics, n: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    state = dynamics.reset(rng, n)
    for _ in range(dynamics.n_steps):
        state = dynamics.step(rng, state)
    return state


def standard_error(sample: Floats) -> float:
    return float(sample.std()) / math.sqrt(len(sample))


@every_dynamics
def test_instruments_are_martingales_and_the_premium_is_the_mean_payoff(dynamics: Dynamics) -> None:
    n = 60_000
    state = at_maturity(dynamics, n, seed=11)
    begin = dynamics.prices(dynamics.reset(np.random.default_rng(0), 1), np.zeros(1, np.int64))[:, 0]
    end = dynamics.prices(state, np.full(n, dynamics.n_steps))
    for before, after in zip(begin, end, strict=True):
        assert after.mean() == pytest.approx(before, abs=4 * standard_error(after))
    # Half a share is most of what the payoff moves with: it takes noise away and changes no mean.
    controlled = dynamics.payoff(state) - 0.5 * (state[0] - dynamics.strike)
    assert controlled.mean() == pytest.approx(dynamics.premium, abs=4 * standard_error(controlled))


def test_the_premiums_that_were_published() -> None:
    assert pytest.approx(2.287, abs=5e-4) == BlackScholes().premium
    assert pytest.approx(1.69, abs=5e-3) == Heston().premium


def test_premiums_of_shorter_options_are_those_of_shorter_worlds() -> None:
    for kind in (BinomialTree, BlackScholes, Heston):
        assert kind().premiums[7] == pytest.approx(kind(n_steps=7).premium, rel=1e-12)
        assert kind().premiums[0] == 0.0


def test_the_tree_prices_by_counting_all_paths() -> None:
    tree = BinomialTree(n_steps=6, sigma=0.5)
    expected = 0.0
    for ups in itertools.product((True, False), repeat=6):
        spot, probability = tree.strike, 1.0
        for up in ups:
            spot *= tree.up if up else 1.0 / tree.up
            probability *= tree.probability if up else 1.0 - tree.probability
        expected += probability * max(spot - tree.strike, 0.0)
    assert tree.premium == pytest.approx(expected, rel=1e-12)


def test_heston_with_a_quiet_variance_is_black_scholes() -> None:
    """As σ falls to 0 with V₀ = b, the variance stays where it is."""
    quiet = Heston(vol_of_vol=1e-3, correlation=0.0)
    assert quiet.premium == pytest.approx(BlackScholes().premium, rel=1e-4)


def test_the_variance_of_heston_has_the_moments_of_the_cir_process() -> None:
    """E[V_T] = b for V₀ = b, and Var[V_T] = b·σ²/(2α)·(1 − exp(−2αT)) there."""
    heston = Heston()
    variance = at_maturity(heston, 100_000, seed=2)[1]
    total = heston.n_steps * heston.dt
    wanted = heston.mean_variance * heston.vol_of_vol**2 / (2 * heston.reversion) * -math.expm1(-2 * total)
    assert variance.mean() == pytest.approx(heston.mean_variance, abs=4 * standard_error(variance))
    squares = (variance - heston.mean_variance) ** 2
    assert squares.mean() == pytest.approx(wanted, abs=4 * standard_error(squares))
    assert (variance >= 0).all()


def test_a_day_of_heston_is_that_of_the_slow_twin() -> None:
    heston, dt = Heston(), 1 / 365
    state = np.array([[100.0, 90.0, 104.0], [0.04, 0.001, 0.5], [0.0, 0.002, 0.01]])
    moved = heston.step(np.random.default_rng(8), state)
    rng = np.random.default_rng(8)
    decay = math.exp(-dt)
    scale = 4 * (1 - decay) / 4
    after = scale * rng.noncentral_chisquare(0.04, state[1] * decay / scale)
    np.testing.assert_allclose(moved[1], after, rtol=1e-12)
    for i, normal in enumerate(rng.standard_normal(3)):
        expected = heston_spot(state[0, i], state[1, i], after[i], normal, dt)
        assert moved[0, i] == pytest.approx(expected, rel=1e-12)
        assert moved[2, i] == pytest.approx(state[2, i] + (state[1, i] + after[i]) / 2 * dt, rel=1e-12)


def test_the_swap_is_worth_what_was_realized_at_maturity() -> None:
    heston = Heston(n_steps=3)
    state = at_maturity(heston, 5, seed=0)
    np.testing.assert_array_equal(heston.prices(state, np.full(5, 3))[1], state[2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BlackScholes(sigma=0.0), "sigma = 0.0"),
        (lambda: BinomialTree(sigma=float("nan")), "sigma = nan"),
        (lambda: BlackScholes(n_steps=0), "n_steps = 0"),
        (lambda: BlackScholes(strike=-1.0), "strike = -1.0"),
        (lambda: Heston(correlation=1.0), r"correlation = 1\.0"),
        (lambda: Heston(vol_of_vol=-2.0), r"vol_of_vol = -2\.0"),
        (lambda: dynamics_named("black-scholes"), "tree, black_scholes, heston"),
    ],
)
def test_impossible_worlds_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=message):
        make()
