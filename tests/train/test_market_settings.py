"""Every setting of the section market changes behaviour (P12). A new one fails here until it has its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from surefoot import PPO
from surefoot.config import MarketConfig, from_flat
from surefoot.errors import ConfigError, DataError, SurefootError
from surefoot.train.market import plan_market
from train.agents import parameters

ID = "surefoot/Market-v0"
GBM = "generated:gbm(seed=0, bars=300)"
LEVELS: dict[str, Any] = {"action": "levels"}
BY_UNIT: dict[str, Any] = {"costs": {"commission_minimum": 5.0}}
DATES: dict[str, Any] = {"train": ("2000-01", "2000-01-09"), "validation": ("2000-01-09", "2000-01-14")}
COST: dict[str, Any] = {"cost": "exposure"}

TRAINS: dict[str, tuple[Any, dict[str, Any]]] = {
    "data": ("generated:gbm(seed=1, bars=300)", {}),
    "fractions": ((0.5, 0.2), {}),
    "train": (("2000-01", "2000-01-08"), DATES),
    "features": (("return(1)", "rsi(5)"), {}),
    "window": (3, {}),
    "action": ("levels", {}),
    "levels": ((0.0, 1.0), LEVELS),
    "allow_short": (False, {}),
    "costs": ({"half_spread_bps": 50.0}, {}),
    "cost_multiplier": ((0.5, 20.0), {}),
    "reward": (("log_growth", "variance(coef=100)"), {}),
    "episode_length": ((20,), {}),
    "random_start": (False, {}),
    "no_trade": (("00:00-12:00",), {}),
    "position_limits": ({"always": 0.1}, {}),
    "rebalance_band": (0.2, {}),
    "capital": (100.0, BY_UNIT),
    "ruin": (0.97, {}),
}
"""A value, and what stands beside it: training with it leads to other weights."""


def trained(settings: dict[str, Any]) -> Tensor:
    market = {"data": GBM} | settings
    agent = PPO(
        ID, n_envs=2, n_steps=64, batch_size=32, n_epochs=2, policy={"hidden_sizes": (8,)}, compile=False, market=market
    )
    agent.learn(384)
    return parameters(agent)


@pytest.mark.parametrize("name", TRAINS)
def test_training_becomes_another(name: str) -> None:
    value, beside = TRAINS[name]
    assert not trained(beside | {name: value}).equal(trained(beside))


def test_without_a_change_nothing_changes() -> None:
    assert trained({}).equal(trained({}))


def planned(**market: Any) -> dict[str, Any]:
    """Arguments of the envs of training and evaluation."""
    config = plan_market(from_flat(env=ID, market=market, run={"eval_every": 1000}), evaluate=True).config
    return config.env_kwargs | {"evaluation": config.run.eval_env_kwargs}


def test_the_cost_is_what_constraints_see() -> None:
    risk = {"kind": "cost_constraint", "limit_per_episode": 0.1}
    market = {"data": GBM, "episode_length": (20,), "action": "levels"}
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 64, "batch_size": 32, "compile": False, "risk": risk}
    with pytest.raises(SurefootError, match="cost"):
        PPO(ID, market=market, **settings).learn(128)
    agents = [PPO(ID, market=market | {"cost": cost}, **settings).learn(384) for cost in ("exposure", "turnover")]
    assert not parameters(agents[0]).equal(parameters(agents[1]))


def test_spans_of_evaluation() -> None:
    assert planned(data=GBM, **DATES)["evaluation"]["span"] == ["2000-01-09", "2000-01-14"]
    with pytest.raises(ConfigError, match="overlap"):
        planned(data=GBM, **DATES, test=("2000-01-13",))
    assert planned(data=GBM, **DATES, test=("2000-01-14",))["evaluation"]["span"] == ["2000-01-09", "2000-01-14"]


def test_another_fingerprint_is_refused() -> None:
    with pytest.raises(ConfigError, match="sha256"):
        planned(data=GBM, fingerprint="0" * 64)


def write(path: Path, *rows: str, hours: bool = False) -> str:
    """120 closes, and rows as they are; of days that are also months, so that their order is not known."""
    days, moments = (f"{1 + i % 12:02d}/{1 + i // 12:02d}/2015" for i in range(120)), range(120)
    stamps = [f"2015-01-{1 + i // 24:02d} {i % 24:02d}:00" for i in moments] if hours else list(days)
    lines = [f"{stamp},{100 + i % 7},{i}" for i, stamp in enumerate(stamps)]
    path.write_text("\n".join(["when,px,other", *lines, *rows]) + "\n")
    return str(path)


def test_what_is_said_about_the_data(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv")
    given: dict[str, Any] = {"columns": {"time": "when", "close": "px"}, "dates": "dmy", "features": ("return(1)",)}
    found = planned(data=file, **given)
    assert found["reading"] == {"columns": {"time": "when", "close": "px"}, "dates": "dmy"}
    for name in ("columns", "dates"):
        with pytest.raises(DataError):
            planned(data=file, **{key: value for key, value in given.items() if key != name})
    with pytest.raises(ConfigError, match="other"):
        planned(data=file, **given | {"features": ("column('other')",)})
    more = planned(data=file, **given | {"features": ("column('other')",), "extra": ("other",)})
    assert len(more["statistics"]["columns"]) == 1
    faulty = write(tmp_path / "b.csv", "01/11/2015,,1")
    with pytest.raises(DataError, match="missing"):
        planned(data=faulty, **given)
    assert planned(data=faulty, **given, repair=("drop_missing",))["reading"]["repair"] == ["drop_missing"]


def test_what_is_said_about_times(tmp_path: Path) -> None:
    file = write(tmp_path / "h.csv", hours=True)
    given: dict[str, Any] = {"columns": {"time": "when", "close": "px"}, "features": ("return(1)",)}
    spans = {
        name: planned(data=file, **given, **more)["span"][0]
        for name, more in {
            "plain": {},
            "stamp": {"stamp": "open"},
            "timezone": {"timezone": "America/New_York"},
        }.items()
    }
    assert spans == {"plain": "2015-01-01", "stamp": "2015-01-01T01:00", "timezone": "2015-01-01T05:00"}
    with pytest.raises(DataError, match="wrong-calendar"):
        planned(data=file, **given, calendar="XNYS")
    assert planned(data=file, **given, calendar="XNYS", accept=("wrong-calendar",))["span"][0] == "2015-01-01"


def test_one_instrument_is_chosen(tmp_path: Path) -> None:
    file = tmp_path / "two.csv"
    rows = [f"2015-{1 + i // 28:02d}-{1 + i % 28:02d},{name},{100 + i % 5}" for i in range(120) for name in ("A", "B")]
    file.write_text("\n".join(["time,symbol,close", *rows]) + "\n")
    with pytest.raises(DataError, match="several-instruments"):
        planned(data=str(file), features=("return(1)",))
    assert planned(data=str(file), features=("return(1)",), instrument="B")["reading"] == {"instrument": "B"}


def test_a_decimal_comma(tmp_path: Path) -> None:
    file = tmp_path / "comma.csv"
    rows = [f"2015-{1 + i // 28:02d}-{1 + i % 28:02d};{100 + i % 5},5" for i in range(120)]
    file.write_text("\n".join(["time;close", *rows]) + "\n")
    with pytest.raises(DataError, match="decimal-comma"):
        planned(data=str(file), features=("return(1)",))
    assert planned(data=str(file), features=("return(1)",), decimal=",")["reading"] == {"decimal": ","}


def test_every_setting_has_its_proof() -> None:
    read = {"columns", "dates", "extra", "decimal", "calendar", "repair", "stamp", "timezone", "accept", "instrument"}
    assert {*TRAINS, *read, "cost", "validation", "test", "fingerprint"} == set(MarketConfig.model_fields)
