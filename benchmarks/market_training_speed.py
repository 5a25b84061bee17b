"""How much of training is the market, and how fast is training on it end to end, beside SB3's RecurrentPPO?

Part of `benchmarks/market_speed.py`. One thread; seconds of CPU time, after a first training that compiles and warms
everything up. Networks are the same: an LSTM with two layers of 64 behind it, for actor and critic each.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from market_worlds import EPISODE, FEATURES, bars, gym_trading_env

from surefoot import PPO
from surefoot.market import Market
from surefoot.market.env import MarketEnv

ACCOUNTS, N_STEPS, BATCH, EPOCHS, WIDTH = 64, 128, 1024, 4, 64
ROLLOUT = ACCOUNTS * N_STEPS
LSTM: dict[str, Any] = {
    "policy": {"hidden_sizes": ()},
    "memory": {"kind": "lstm", "hidden_size": WIDTH, "output_sizes": (WIDTH, WIDTH)},
}
KINDS: dict[str, dict[str, Any]] = {
    "MLP of 64 and 64, preset's batches": {},
    "LSTM, scalar critic": LSTM,
    "LSTM, quantile critic": LSTM | {"critic": {"kind": "quantile"}},
}


def agent(settings: dict[str, Any]) -> PPO:
    """On 64 accounts with eight features and `levels`."""
    market = Market(bars(ohlc=True), ACCOUNTS, features=FEATURES, episode_length=EPISODE, action="levels")
    return PPO(market, n_steps=N_STEPS, batch_size=BATCH, n_epochs=EPOCHS, compile=True, **settings)


def trained(settings: dict[str, Any], rounds: int) -> tuple[float, float]:
    """(env steps per second, share of the env) of whole training, medians over rounds."""
    made = agent(settings)
    made.learn(2 * ROLLOUT)
    spent = 0.0
    step = made.envs.step

    def timed(actions: Any) -> Any:
        nonlocal spent
        began = time.process_time()
        found = step(actions)
        spent += time.process_time() - began
        return found

    made.envs.step = timed  # type: ignore[method-assign]  # counts, and does the same
    rates, shares = [], []
    for _ in range(rounds):
        spent, began = 0.0, time.process_time()
        made.learn(2 * ROLLOUT)
        took = time.process_time() - began
        rates.append(2 * ROLLOUT / took)
        shares.append(spent / took)
    made.close()
    return statistics.median(rates), statistics.median(shares)


def recurrent_sb3(make: Callable[[], Any], rounds: int) -> float:
    """Env steps per second of SB3's RecurrentPPO on 64 of such envs."""
    contrib, vec_env = import_module("sb3_contrib"), import_module("stable_baselines3.common.vec_env")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = contrib.RecurrentPPO(
            "MlpLstmPolicy",
            vec_env.DummyVecEnv([make] * ACCOUNTS),
            n_steps=N_STEPS,
            batch_size=BATCH,
            n_epochs=EPOCHS,
            device="cpu",
            policy_kwargs={"net_arch": [WIDTH, WIDTH], "lstm_hidden_size": WIDTH},
        )
        rates = []
        for _ in range(rounds):
            began = time.process_time()
            model.learn(ROLLOUT)
            rates.append(ROLLOUT / (time.process_time() - began))
    return statistics.median(rates)


def market_env() -> Any:
    """One account, as SB3 takes it."""
    return MarketEnv(bars(ohlc=True), features=FEATURES, episode_length=EPISODE, action="levels")


def peers(rounds: int) -> list[tuple[str, float | None, str]]:
    """(name, env steps per second, or why not)."""
    found: list[tuple[str, float | None, str]] = []
    for name, make in (
        ("RecurrentPPO on Gym-Trading-Env", lambda: gym_trading_env(windows=None)),
        ("RecurrentPPO on our `MarketEnv`", market_env),
    ):
        try:
            found.append((name, recurrent_sb3(make, rounds), ""))
        except ImportError as error:
            found.append((name, None, f"not installed: {error.name}"))
    return found


def section(rounds: int) -> list[str]:
    """Lines of the page."""
    lines = [
        "## Training end to end",
        "",
        f"{ACCOUNTS} accounts, OHLC bars, `levels`, {len(FEATURES)} features, window 1; rollouts of {N_STEPS} steps, "
        f"minibatches of {BATCH}, {EPOCHS} epochs; env steps per second of CPU time on one thread, medians of {rounds} "
        "trainings after one that compiles. The env's share is that of stepping it through the library's interface.",
        "",
        "| training | env steps/s | share of the env |",
        "|---|--:|--:|",
    ]
    ours = {name: trained(settings, rounds) for name, settings in KINDS.items()}
    lines += [f"| Surefoot, {name} | {rate:,.0f} | {share:.1%} |" for name, (rate, share) in ours.items()]
    base = ours["LSTM, scalar critic"][0]
    ratios = []
    for name, rate, reason in peers(max(1, rounds // 2)):
        lines.append(f"| SB3 {name}, same network | {f'{rate:,.0f}' if rate else reason} | |")
        if rate:
            ratios.append(f"{base / rate:.1f} times {name}")
    if ratios:
        lines += ["", f"With an LSTM and a scalar critic: {', '.join(ratios)}."]
    share = max(share for _, share in ours.values())
    return [*lines, "", f"Largest share of the env: {share:.1%} (at most 15 % was asked for)."]
