"""What agents learn on generated series whose best policy is known; each case is a function of the seed.

Agents train on the series of one seed and are judged, without noise in their actions, on another. Settings were chosen
on seeds 10 to 12; the page reports others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot import PPO
from surefoot.market import Costs, Market, Prices, generators

Figures = dict[str, float]
Policy = Callable[[NDArray[Any], NDArray[np.int64]], NDArray[Any]]
"""From observations and the bars of accounts to actions."""
COSTS = Costs(half_spread_bps=2.5, commission_bps=2.5)
COST_RATE = 5e-4
ALPHA_STEP, LIMIT_STEP = 0.05, -0.01
ALPHA_EPISODE, LIMIT_EPISODE = 0.1, -0.08
EPISODE, ROLLOUT = 256, 64
"""Episodes of the crash-prone market are four rollouts long."""
SETTINGS: dict[str, Any] = {
    "n_steps": ROLLOUT,
    "batch_size": 1024,
    "n_epochs": 4,
    "gamma": 0.9,
    "gae_lambda": 0.9,
    "learning_rate": "linear(1e-3, 0)",
    "policy": {"hidden_sizes": (32, 32)},
}
TESTED = 1000
"""Added to a seed for the series that an agent is judged on."""


def planted(seed: int, action: str = "levels", steps: int = 300_000) -> Figures:
    """A signal that tells the drift of the next bar; whoever follows it has what is known to be best."""
    features = ["return(1)", "return(5)", "volatility(20)", "column('signal')"]

    def market(series: int, n: int, bars: int, **settings: Any) -> Market:
        prices = generators.planted_signal(seed=series, bars=bars, ohlc=True)
        return Market(prices, n, features=features, costs=COSTS, action=action, **settings)

    train = market(seed, 64, 50_000, episode_length=250, seed=seed)
    test = market(TESTED + seed, 1, 20_000, random_start=False, statistics=train.statistics)
    agent = PPO(train, seed=seed, **SETTINGS).learn(steps)
    signal = test.prices.extra["signal"]

    def follow(_: NDArray[Any], bar: NDArray[np.int64]) -> NDArray[Any]:
        side = signal[bar]
        return (side + 1).astype(np.int64) if action == "levels" else side[:, None].astype(np.float32)

    growth, turnover, _ = walk(test, acting(agent))
    best, _, _ = walk(test, follow)
    known = generators.planted_signal_follower(cost_rate=COST_RATE).growth
    return {
        "growth": float(growth.mean()),
        "follower": float(best.mean()),
        "known": known,
        "share": float(growth.mean() / best.mean()),
        "turnover": float(turnover.mean()),
    }


def clairvoyant(seed: int, steps: int = 500_000) -> Figures:
    """Prices without any signal, and a column that tells the return that an order still earns: it must be found."""

    def prices(series: int, bars: int) -> Prices:
        made = generators.no_signal(seed=series, bars=bars, volatility=5e-3, ohlc=True)
        ahead = np.append(np.diff(np.log(made.close)), 0.0)
        return replace(made, extra={"ahead": ahead})

    features = ["return(1)", "column('ahead')"]
    train = Market(prices(seed, 50_000), 64, features=features, costs=Costs(), episode_length=250, seed=seed)
    tested = prices(TESTED + seed, 20_000)
    test = Market(tested, 1, features=features, costs=Costs(), random_start=False, statistics=train.statistics)
    agent = PPO(train, seed=seed, **SETTINGS).learn(steps)
    ahead = tested.extra["ahead"]
    growth, _, _ = walk(test, acting(agent))
    best, _, _ = walk(test, lambda _, bar: np.sign(ahead[bar])[:, None].astype(np.float32))
    return {
        "growth": float(growth.mean()),
        "known": float(best.mean()),
        "share": float(growth.mean() / best.mean()),
    }


def no_signal(seed: int, steps: int = 300_000, action: str = "levels") -> Figures:
    """Nothing to find and costs to pay: the best is not to trade."""
    features = ["return(1)", "return(5)", "volatility(20)"]

    def market(series: int, n: int, bars: int, **settings: Any) -> Market:
        prices = generators.no_signal(seed=series, bars=bars, volatility=5e-3, ohlc=True)
        return Market(prices, n, features=features, costs=COSTS, action=action, **settings)

    train = market(seed, 64, 50_000, episode_length=250, seed=seed)
    test = market(TESTED + seed, 1, 20_000, random_start=False, statistics=train.statistics)
    agent = PPO(train, seed=seed, **SETTINGS).learn(steps)
    growth, turnover, _ = walk(test, acting(agent))
    return {"growth": float(growth.mean()), "turnover": float(turnover.mean())}


def crash(seed: int, kind: str, steps: int | None = None) -> Figures:
    """A calm rise with rare falls: ``neutral``, or with a limit on the worst of steps (``step``) or ``episode``s."""
    risk: dict[str, Any] = {
        "neutral": {},
        "step": {"kind": "cvar_constraint", "alpha": ALPHA_STEP, "limit_per_step": LIMIT_STEP},
        "episode": {"kind": "cvar_constraint", "alpha": ALPHA_EPISODE, "limit_per_episode": LIMIT_EPISODE},
    }[kind]
    many = 1024 if kind == "episode" else 64
    usual = 8_000_000 if kind == "episode" else 1_500_000
    settings = SETTINGS | {
        "batch_size": many * ROLLOUT // 8,
        "learning_rate": "linear(3e-3, 0)",
        "gamma": 0.5,  # a position earns at the next bar, and returns are independent
        "gae_lambda": 0.5,
        "policy": {"hidden_sizes": (16,), "log_std_init": -1.0},
    }

    def market(series: int, n: int, **more: Any) -> Market:
        prices = generators.crash_prone(seed=series, bars=400_000, ohlc=True)
        features = ["return(1)", "volatility(20)"]
        return Market(
            prices, n, features=features, episode_length=EPISODE, costs=Costs(half_spread_bps=1.0), seed=seed, **more
        )

    train = market(seed, many)
    agent = PPO(train, seed=seed, risk=risk, **settings).learn(steps or usual)
    fixed = best_fixed("episode" if kind == "episode" else "step")["position"]

    def hold(observation: NDArray[Any], _: NDArray[np.int64]) -> NDArray[Any]:
        return np.full((len(observation), 1), fixed, np.float32)

    found: Figures = {}
    for prefix, policy in (("", acting(agent)), ("fixed_", hold)):  # on the same paths
        test = market(TESTED + seed, 1024, statistics=train.statistics)
        growth, _, position = walk(test, policy, 2 * EPISODE)
        episodes = growth.reshape(2, EPISODE, -1).sum(axis=1).ravel()
        found |= {
            f"{prefix}position": float(position.mean()),
            f"{prefix}growth": float(growth.mean()),
            f"{prefix}cvar_step": cvar(growth.ravel(), ALPHA_STEP),
            f"{prefix}cvar_episode": cvar(episodes, ALPHA_EPISODE),
        }
    return found


@cache
def best_fixed(kind: str) -> Figures:
    """The largest fixed position that keeps the limit, and its growth per bar."""
    crashing = generators.crash_prone_returns()
    returns = _episodes() if kind == "episode" else None
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if returns is None:
            kept = crashing.cvar(middle, ALPHA_STEP, 20_001) >= LIMIT_STEP
        else:
            kept = cvar(np.log1p(middle * returns).sum(axis=1), ALPHA_EPISODE) >= LIMIT_EPISODE
        low, high = (middle, high) if kept else (low, middle)
    return {"position": low, "growth": crashing.growth(low)}


def _episodes(n: int = 40_000) -> NDArray[np.float64]:
    """[n, EPISODE] simple returns of the crash-prone market, drawn as they are distributed."""
    rng, crashing = np.random.default_rng(0), generators.crash_prone_returns()
    falls = rng.random((n, EPISODE)) < crashing.weights[1]
    logs = np.where(falls, crashing.means[1], crashing.means[0]) + crashing.stds[0] * rng.normal(size=(n, EPISODE))
    return np.expm1(logs)


def cvar(values: NDArray[np.float64], alpha: float) -> float:
    """Mean of the worst share."""
    worst = np.sort(values)[: max(1, round(alpha * len(values)))]
    return float(worst.mean())


def acting(agent: PPO) -> Policy:
    """The agent without noise."""
    return lambda seen, _: np.asarray(agent.predict(seen, deterministic=True)[0])


def walk(
    market: Market, act: Policy, steps: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Rewards, turnovers and positions [T, N] of so many steps, or of one episode of all accounts."""
    seen, _ = market.reset(seed=0)
    found: list[tuple[NDArray[np.float64], ...]] = []
    while steps is None or len(found) < steps:
        bar = market.state_dict()["bar"]
        seen, reward, terminated, truncated, info = market.step(act(seen, bar))
        done = terminated | truncated
        told = info.get("final_info", info)
        found.append((reward, told["turnover"], told["position"]))
        if steps is None and done.any():
            break
    rewards, turnovers, positions = (np.stack(column) for column in zip(*found, strict=True))
    return rewards, turnovers, positions
