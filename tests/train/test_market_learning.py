"""Training on markets: from a Market, from the id with env_kwargs, from the section market; signals are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot import PPO
from surefoot.errors import ConfigError
from surefoot.market import Costs, Market, load_prices, split
from surefoot.market.generators import no_signal, planted_signal
from train.agents import same_training

QUICK: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy": {"hidden_sizes": (8,)}}
GBM = "generated:gbm(seed=0, bars=600)"
LEARNING: dict[str, Any] = {
    "n_steps": 32,
    "batch_size": 512,
    "n_epochs": 4,
    "gamma": 0.9,
    "gae_lambda": 0.9,
    "learning_rate": "linear(3e-3, 0)",
    "policy": {"hidden_sizes": (16,)},
    "compile": False,
}


def test_four_lines_are_enough() -> None:
    prices = load_prices(GBM)
    agent = PPO(Market(prices, num_envs=4, span=split(prices).train), **QUICK).learn(256)
    assert agent.num_timesteps == 256
    assert agent.config.n_envs == 4


def test_a_market_takes_what_load_prices_takes() -> None:
    assert len(Market(GBM, 2).prices) == 600
    with pytest.raises(ConfigError, match="needs prices"):
        Market(None)


def test_the_id_and_the_section_are_the_same_market() -> None:
    by_section = PPO("surefoot/Market-v0", n_envs=4, market={"data": GBM, "window": 2}, **QUICK)
    kwargs = by_section.config.env_kwargs
    assert (kwargs["window"], kwargs["span"]) == (2, list(split(load_prices(GBM)).train))
    by_id = PPO("surefoot/Market-v0", n_envs=4, env_kwargs=kwargs, **QUICK)
    by_hand = PPO(Market(load_prices(GBM), 4, span=split(load_prices(GBM)).train, window=2), **QUICK)
    for agent in (by_section, by_id, by_hand):
        agent.learn(256)
    assert same_training(by_section, by_id)
    assert same_training(by_section, by_hand)


def test_an_agent_has_its_market_with_it(tmp_path: Path) -> None:
    agent = PPO("surefoot/Market-v0", n_envs=2, market={"data": GBM}, **QUICK).learn(128)
    loaded = PPO.load(agent.save(tmp_path / "agent"))
    assert loaded.config.market.fingerprint == load_prices(GBM).fingerprint
    assert loaded.evaluate(2, seed=3).returns == agent.evaluate(2, seed=3).returns
    validation = list(split(load_prices(GBM)).validation)
    other = {"span": validation, "random_start": False, "episode_length": 0}
    assert loaded.evaluate(1, env_kwargs=other).lengths == (119,)


@pytest.mark.parametrize(
    ("env", "settings", "text"),
    [
        ("CartPole-v1", {"market": {"data": GBM}}, "market.data is for env = 'surefoot/Market-v0'"),
        ("surefoot/Market-v0", {"market": {"data": GBM}, "env_kwargs": {"window": 3}}, "leave them out"),
        ("surefoot/Market-v0", {"market": {"window": 3}}, "needs market.data"),
        ("surefoot/Market-v0", {"market": {"data": GBM, "wnidow": 3}}, "window"),
        ("surefoot/Market-v0", {"market": {"data": GBM, "ruin": 2.0}}, "ruin"),
    ],
)
def test_mistakes_are_named(env: str, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        PPO(env, **settings)


def test_a_market_that_is_made_needs_no_section() -> None:
    with pytest.raises(ConfigError, match=r"market\.data is for PPO"):
        PPO(Market(GBM, 2), market={"data": GBM})


def judged(agent: PPO, market: Market) -> tuple[float, float]:
    """Growth and turnover per bar, without noise."""
    seen, _ = market.reset(seed=0)
    rewards, turnovers = [], []
    while True:
        action, _ = agent.predict(seen, deterministic=True)
        seen, reward, terminated, truncated, info = market.step(action)
        rewards.append(reward[0])
        turnovers.append(info.get("final_info", info)["turnover"][0])
        if (terminated | truncated).any():
            return float(np.mean(rewards)), float(np.mean(turnovers))


def test_a_planted_signal_is_followed_and_none_is_not_invented() -> None:
    """At least 90 % of what following the signal earns after costs; the benchmark has five seeds of more kinds."""
    costs, features = Costs(half_spread_bps=5.0), ["column('signal')", "return(1)"]
    settings: dict[str, Any] = {"features": features, "costs": costs, "action": "levels"}
    train = Market(planted_signal(seed=1, bars=20_000, ohlc=True), 64, episode_length=100, **settings)
    test = Market(
        planted_signal(seed=2, bars=3_000, ohlc=True), 1, random_start=False, statistics=train.statistics, **settings
    )
    growth, turnover = judged(PPO(train, **LEARNING).learn(40_000), test)
    signal, seen = test.prices.extra["signal"], test.reset(seed=0)[1]
    del seen
    followed = []
    while True:
        bar = test.state_dict()["bar"]
        _, reward, _, truncated, _ = test.step((signal[bar] + 1).astype(np.int64))
        followed.append(reward[0])
        if truncated.any():
            break
    assert growth >= 0.9 * np.mean(followed)
    settings["features"] = ["return(1)"]
    quiet = Market(no_signal(seed=1, bars=20_000, volatility=5e-3, ohlc=True), 64, episode_length=100, **settings)
    still = Market(
        no_signal(seed=2, bars=3_000, volatility=5e-3, ohlc=True),
        1,
        random_start=False,
        statistics=quiet.statistics,
        **settings,
    )
    _, idle = judged(PPO(quiet, **LEARNING).learn(40_000), still)
    assert idle < 0.05 * turnover
