"""Presets of the market beside the plain defaults, both as `surefoot train market` would train them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from market_cases import Figures, walk

from surefoot import PPO
from surefoot.algo.learner import IterationRecord
from surefoot.config import from_dict, merge
from surefoot.config.market_presets import MARKET_ID, MARKET_PRESETS
from surefoot.config.presets import preset
from surefoot.market import Market, generators
from surefoot.market.registration import make_market
from surefoot.train.callbacks import Callback
from surefoot.train.market import plan_market

SIGNAL: dict[str, Any] = {
    "features": ("return(1)", "return(5)", "volatility(20)", "column('signal')"),
    "costs": {"half_spread_bps": 2.5, "commission_bps": 2.5},
}
DATA: dict[str, tuple[str, dict[str, Any]]] = {
    "market-daily": ("sp500", {}),
    "market-hourly": ("eurusd-hourly", {}),
    "market-minute": ("generated:planted_signal(seed=SEED, bars=50000, ohlc=True)", SIGNAL),
}
"""Data of each preset, and what of the market both sides are given."""
STEPS = {"market-minute": 200_000}
"""Env steps in place of the preset's, so that they tell the two apart."""


class Evaluations(Callback):
    """Keeps the mean returns on the validation span."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_update(self, agent: PPO, record: IterationRecord) -> None:
        del record
        found = agent.logger_values | agent._logged  # of this update
        if "eval/mean_reward" in agent._logged:
            self.seen.append(float(found["eval/mean_reward"]))


def compare(name: str, seed: int, with_preset: bool) -> Figures:
    """Growth of equity (log) on the validation span: of the best agent, which is kept, and of the last."""
    data, market = DATA[name]
    mine = preset(name)
    if not with_preset:  # the same steps and evaluations, and nothing else
        mine = {key: mine[key] for key in ("env", "total_timesteps", "run")}
    mine["total_timesteps"] = STEPS.get(name, mine["total_timesteps"])
    given = {"seed": seed, "market": {"data": data.replace("SEED", str(seed)), **market}}
    if name in STEPS:
        given["run"] = {"eval_every": STEPS[name] // 8}
    config = plan_market(from_dict(merge(mine, given)), evaluate=True).config
    evaluations = Evaluations()
    agent = PPO(MARKET_ID, config=config)
    with tempfile.TemporaryDirectory() as directory:
        agent.learn(config.total_timesteps, callback=evaluations, run_dir=Path(directory) / "run")
    agent.close()
    found = {"best": max(evaluations.seen), "last": evaluations.seen[-1], "steps": float(agent.num_timesteps)}
    if name == "market-minute":
        known = generators.planted_signal_follower(cost_rate=5e-4).growth
        found["share"] = found["best"] / (known * 10_000)  # a fifth of the bars
    return found


def always_long(name: str) -> float | None:
    """The same of whoever buys at the first bar and holds; None where there is no one series."""
    data, market = DATA[name]
    if "SEED" in data:
        return None
    given: dict[str, Any] = {"env": MARKET_ID, "market": {"data": data, **market}, "run": {"eval_every": 1000}}
    config = plan_market(from_dict(given)).config
    arguments = config.env_kwargs | config.run.eval_env_kwargs
    held = make_market(1, **arguments)
    assert isinstance(held, Market)
    growth, _, _ = walk(held, lambda seen, _: np.ones((len(seen), 1), np.float32))
    return float(growth.sum())


NAMES = tuple(MARKET_PRESETS)
