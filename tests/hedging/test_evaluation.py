"""Figures of P&L: CVaR with its error, fresh paths."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pytest

from surefoot.errors import ConfigError, SurefootError
from surefoot.hedging import evaluation
from surefoot.hedging.dynamics import BlackScholes, Floats
from surefoot.hedging.evaluation import (
    cvar_loss,
    cvar_standard_error,
    evaluate_strategy,
    loss_figures,
    var_loss,
)
from surefoot.hedging.strategies import Delta, NoHedge

BS = BlackScholes()


def test_losses_by_hand() -> None:
    """Ten P&Ls: the worst fifth are −9 and −5."""
    pnl = np.array([3.0, -9.0, 1.0, 0.0, 2.0, -5.0, 4.0, 1.0, 1.0, 2.0])
    assert cvar_loss(pnl, 0.8) == pytest.approx(7.0)
    assert var_loss(pnl, 0.8) == 5.0
    assert cvar_loss(pnl, 0.0) == pytest.approx(-pnl.mean())
    with pytest.raises(ConfigError, match="level = 95"):
        cvar_loss(pnl, 95)


def test_the_standard_error_is_how_far_repetitions_scatter() -> None:
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((400, 4_000))
    found = np.array([cvar_loss(row, 0.95) for row in samples])
    said = np.mean([cvar_standard_error(row, 0.95) for row in samples[:50]])
    assert said == pytest.approx(found.std(), rel=0.12)  # 400 repetitions know it to 3.5 %
    normal = NormalDist()
    assert found.mean() == pytest.approx(normal.pdf(normal.inv_cdf(0.05)) / 0.05, abs=0.01)


def test_strategies_meet_the_same_paths_and_other_seeds_others() -> None:
    none, again, other = (evaluate_strategy(NoHedge(BS), {}, 500, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(none, again)
    assert not np.array_equal(none, other)
    # A hedge with a constant share differs by that share of S_T − S_0, which the payoff tells where it is positive.
    half = evaluate_strategy(lambda seen: np.full((len(seen), 1), 0.5), {}, 500, 1)
    called = none < BS.premium - 1e-9
    np.testing.assert_allclose(half[called] - none[called], 0.5 * (BS.premium - none[called]), atol=1e-9)


def test_paths_in_chunks_are_all_different(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "CHUNK", 40)
    pnl = evaluate_strategy(Delta(BS), {"cost_rate": 0.01}, 100)
    assert pnl.shape == (100,)
    assert len(np.unique(pnl)) == 100


def test_a_policy_with_another_shape_is_named() -> None:
    def flat(observation: npt.NDArray[np.float32]) -> Floats:
        return np.zeros(len(observation))

    with pytest.raises(SurefootError, match=r"shape \(50,\) on day 0, expected \(50, 1\)"):
        evaluate_strategy(flat, {}, 50)
    with pytest.raises(ConfigError, match="stagger"):
        evaluate_strategy(NoHedge(BS), {"stagger": True}, 50)
    with pytest.raises(ConfigError, match="n_paths = 0"):
        evaluate_strategy(NoHedge(BS), {}, 0)


def test_figures_hold_together() -> None:
    pnl = evaluate_strategy(Delta(BS), {"cost_rate": 0.01}, 5_000)
    figures = loss_figures(pnl)
    assert figures.mean == pytest.approx(pnl.mean())
    assert -figures.mean < figures.cvar[0.5] < figures.cvar[0.95] < figures.cvar[0.99]
    assert figures.cvar_se[0.5] < figures.cvar_se[0.95] < figures.cvar_se[0.99]
    assert figures.n_paths == 5_000
