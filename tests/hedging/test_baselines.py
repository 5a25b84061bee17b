"""Bands chosen on their own paths, and which rules each world has."""

from __future__ import annotations

import pytest

from surefoot.errors import ConfigError
from surefoot.hedging.baselines import best_band, best_band_within, classical_strategies, golden_section
from surefoot.hedging.dynamics import BlackScholes
from surefoot.hedging.evaluation import cvar_loss, evaluate_strategy
from surefoot.hedging.strategies import Band

BS = BlackScholes()


def test_golden_section_finds_a_minimum() -> None:
    asked: list[float] = []

    def bowl(x: float) -> float:
        asked.append(x)
        return (x - 0.123) ** 2

    assert golden_section(bowl, 0.0, 0.5, 0.001) == pytest.approx(0.123, abs=0.001)
    assert len(asked) <= 16


def test_the_best_band_beats_its_neighbours_and_the_published_one_on_other_paths() -> None:
    costs = {"cost_rate": 0.01}
    band = best_band(costs, n_paths=6_000)
    assert 0.06 < band.width < 0.14
    n = 20_000
    found = cvar_loss(evaluate_strategy(band, costs, n, seed=77), 0.95)
    for width in (0.0, 0.03, 0.25):
        assert found < cvar_loss(evaluate_strategy(Band(BS, width), costs, n, seed=77), 0.95)
    assert found < 3.412 + 0.06, "the best of a few bands tried elsewhere, and three standard errors"


def test_the_best_band_within_a_limit_uses_the_limit_up() -> None:
    costs = {"cost_rate": 0.01}
    best, within = best_band(costs, n_paths=6_000), best_band_within(costs, 3.6, n_paths=6_000)
    assert within.width > best.width
    chosen_on = evaluate_strategy(within, costs, 6_000, seed=1_000_003)
    assert 3.55 < cvar_loss(chosen_on, 0.95) <= 3.6
    assert chosen_on.mean() > evaluate_strategy(best, costs, 6_000, seed=1_000_003).mean()
    with pytest.raises(ConfigError, match=r"loss_limit = 3\.0: the best fixed band"):
        best_band_within(costs, 3.0, n_paths=2_000)
    assert best_band_within(costs, 50.0, n_paths=2_000).width == 0.5


def test_each_world_has_its_rules() -> None:
    assert list(classical_strategies({"dynamics": "heston"})) == ["no hedge", "model hedge"]
    assert list(classical_strategies({"dynamics": "tree"})) == ["no hedge", "delta", "replication"]
    assert list(classical_strategies({})) == ["no hedge", "delta"]


def test_with_costs_there_are_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.hedging.baselines.best_band", lambda env_kwargs, level: Band(BS, 0.1))
    assert list(classical_strategies({"cost_rate": 0.01})) == ["no hedge", "delta", "Whalley–Wilmott", "best band"]
