"""Tables, maps of positions and pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from surefoot.errors import ConfigError, MissingExtraError
from surefoot.hedging.black_scholes import call_delta
from surefoot.hedging.dynamics import BlackScholes, Heston
from surefoot.hedging.evaluation import evaluate_strategy
from surefoot.hedging.heston_hedge import ModelHedge
from surefoot.hedging.pictures import draw_losses, draw_positions
from surefoot.hedging.report import loss_table, position_map
from surefoot.hedging.strategies import Band, Delta, NoHedge, Strategy

BS = BlackScholes()


def test_the_table_by_hand() -> None:
    """Worst half of ±1 is 1, of the constant −2 it is 2; the standard error of a constant is 0."""
    table = loss_table({"coin": np.array([1.0, -1.0] * 50), "sure": np.full(100, -2.0)}, levels=(0.5,))
    rows = [line.split(" | ") for line in table.splitlines()]
    assert rows[0] == ["| strategy", "mean P&L", "CVaR50 of the loss |"]
    assert rows[2] == ["| coin", "0.000 ± 0.197", "**1.000 ± 0.000** |"]
    assert rows[3] == ["| sure", "−2.000 ± 0.000", "2.000 ± 0.000 |"]


def test_the_map_of_delta_is_delta() -> None:
    edges = np.linspace(90.0, 110.0, 41)
    found = position_map(Delta(BS), {}, edges, n_paths=4_000).mean
    assert found.shape == (40, 30)
    middle = (edges[1:] + edges[:-1]) / 2
    for day in (5, 15, 25):
        expected = call_delta(middle, 100.0, 0.2, np.full(40, (30 - day) / 365))
        known = np.isfinite(found[:, day])
        assert known.sum() > 15
        np.testing.assert_allclose(found[known, day], expected[known], atol=0.04)
    assert np.isfinite(found[:, 0]).sum() == 1, "on day 0 all paths are at the money"


def svg(path: Path) -> str:
    ElementTree.parse(path)
    return path.read_text()


def test_pictures_are_drawn_and_say_the_same_each_time(tmp_path: Path) -> None:
    costs = {"cost_rate": 0.01}
    rules: dict[str, Strategy] = {"a band": Band(BS, 0.1), "delta": Delta(BS), "no hedge": NoHedge(BS)}
    pnl = {name: evaluate_strategy(rule, costs, 1_000) for name, rule in rules.items()}
    for i in range(2):
        draw_losses(pnl, tmp_path / f"losses{i}.svg", agents=["a band"], title="Losses")
        draw_positions(rules["a band"], rules["delta"], costs, tmp_path / f"positions{i}.svg", n_paths=1_000)
    for name in ("losses", "positions"):
        assert svg(tmp_path / f"{name}0.svg") == svg(tmp_path / f"{name}1.svg")
    draw_losses(pnl, tmp_path / "losses.png")
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")


def test_a_policy_that_never_trades_and_a_second_instrument_can_be_drawn(tmp_path: Path) -> None:
    draw_positions(NoHedge(BS), NoHedge(BS), {}, tmp_path / "none.svg", n_paths=300)
    heston = Heston(n_steps=4)
    draw_positions(
        ModelHedge(heston), NoHedge(heston), {"dynamics": heston}, tmp_path / "swap.svg", instrument=1, n_paths=300
    )
    assert svg(tmp_path / "none.svg") != svg(tmp_path / "swap.svg")


def test_what_cannot_be_drawn_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pnl = {"none": np.linspace(-1.0, 1.0, 200)}
    with pytest.raises(ConfigError, match="no P&L"):
        draw_losses({}, tmp_path / "losses.svg")
    with pytest.raises(ConfigError, match=r"losses\.pdf: a picture ends in \.svg or \.png"):
        draw_losses(pnl, tmp_path / "losses.pdf")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'surefoot\[plot\]'"):
        draw_losses(pnl, tmp_path / "losses.svg")
