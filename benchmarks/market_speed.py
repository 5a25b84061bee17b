"""How fast does the market step, beside other trading environments?

    python benchmarks/market_speed.py

Environments are stepped with random actions drawn before, then agents train (`market_training_speed.py`). Systems take
turns, each on one thread; a figure is the median over rounds of env steps per second of CPU time, which a busy machine
does not lower as it does the time of the clock. Peers that are not installed are named so. Written into
`benchmarks/results/market_speed.md`.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from market_training_speed import section
from market_worlds import BARS, EPISODE, FEATURES, bars, gym_trading_env

from surefoot.market.costs import Costs
from surefoot.market.env import Market, MarketEnv
from surefoot.vector.gymnasium_vector import VectorEnvs

PAGE = Path(__file__).parent / "results" / "market_speed.md"
CALLS = 64
ALL_FEES = Costs(
    half_spread_bps=1.0,
    commission_bps=0.5,
    commission_per_unit=0.001,
    commission_minimum=0.1,
    slippage_bps=0.5,
    borrow_rate_per_year=0.02,
    funding_rate_per_year=0.01,
)
Run = Callable[[], int]
"""Steps some times and says how many env steps that were."""


def market(n_envs: int, ohlc: bool = False, library: bool = False, **settings: Any) -> Run:
    """Ours: bare, or behind the interface through which the library collects."""
    made = Market(bars(ohlc), n_envs, features=FEATURES, episode_length=EPISODE, **settings)
    rng = np.random.default_rng(1)
    drawn: list[Any] = [rng.uniform(-1, 1, (n_envs, 1)).astype(np.float32) for _ in range(CALLS)]
    if settings.get("action") == "levels":
        drawn = [rng.integers(0, 3, n_envs) for _ in range(CALLS)]
    step: Callable[[Any], Any] = made.step
    if library:
        envs = VectorEnvs(made)
        envs.reset(0)
        step = envs.step
    else:
        made.reset(seed=0)

    def run() -> int:
        for action in drawn:
            step(action)
        return n_envs * CALLS

    return run


def single(env: gymnasium.Env[Any, Any]) -> Run:
    """One env that is reset when its episode is over."""
    env.reset(seed=0)
    env.action_space.seed(0)
    drawn = [env.action_space.sample() for _ in range(CALLS)]

    def run() -> int:
        for action in drawn:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return CALLS

    return run


def anytrading() -> Run:
    """gym-anytrading's currency market with a window of 32 and two columns of signals: no accounts, one fee."""
    import_module("gym_anytrading")  # registers its ids
    pd = import_module("pandas")
    prices = bars(ohlc=False)
    frame = pd.DataFrame({"Open": prices.close, "High": prices.close, "Low": prices.close, "Close": prices.close})
    made = gymnasium.make(
        "forex-v0", df=frame, window_size=32, frame_bound=(32, BARS), unit_side="right", disable_env_checker=True
    )
    return single(made.unwrapped)


OURS: dict[str, Callable[[], Run]] = {
    "close only, target, 8 features, window 1, 64 accounts": lambda: market(64),
    "the same, levels": lambda: market(64, action="levels"),
    "the same, window 32": lambda: market(64, window=32),
    "OHLC, all fees, window 1, 64 accounts": lambda: market(64, ohlc=True, costs=ALL_FEES),
    "OHLC, all fees, window 32, 64 accounts": lambda: market(64, ohlc=True, costs=ALL_FEES, window=32),
    "close only, target, window 1, 1,024 accounts": lambda: market(1024),
    "close only, target, window 1, 64 accounts, behind the library's interface": lambda: market(64, library=True),
    "one account, OHLC, all fees, window 32 (`MarketEnv`)": lambda: single(
        MarketEnv(bars(True), features=FEATURES, window=32, costs=ALL_FEES, episode_length=EPISODE)
    ),
}
PEERS: dict[str, tuple[str, str, Callable[[], Run] | None]] = {
    "gym-anytrading, window 32": ("gym_anytrading", "gym-anytrading", anytrading),
    "Gym-Trading-Env, window 32": ("gym_trading_env", "gym-trading-env", lambda: single(gym_trading_env())),
    "FinRL": ("finrl", "finrl", None),
}


def rates(runs: dict[str, Run], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Env steps per second of CPU time, systems in turns."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began, steps = time.process_time(), 0
            while time.process_time() - began < seconds:
                steps += run()
            found[name].append(steps / (time.process_time() - began))
    return found


def peers() -> tuple[dict[str, Run], list[str]]:
    """Those that run here, and lines about those that do not."""
    runs: dict[str, Run] = {}
    lines = []
    for name, (module, package, build) in PEERS.items():
        try:
            known = importlib.util.find_spec(module) is not None
            if known and build is not None:
                runs[f"{name} (version {version(package)})"] = build()
                continue
            reason = "installed, but not run by this page" if known else "not installed"
        except (ImportError, PackageNotFoundError) as error:
            reason = f"cannot be imported: {error}"
        lines.append(f"| {name} | {reason} | |")
    return runs, lines


def memory() -> list[str]:
    """What a million bars take, counted from the arrays that are kept."""
    n_bars, n_features, n_envs, window, n_steps = 1_000_000, 32, 64, 32, 256
    features, table = n_bars * n_features * 4, n_bars * 4 * 8
    small, large = (n_envs * (rows * n_features + 3) * 4 for rows in (1, window))
    return [
        "## Memory",
        "",
        f"A million bars × {n_features} features: {features / 1e6:.0f} MB of features (float32) and "
        f"{table / 1e6:.0f} MB of prices and elapsed times (float64), once, however many accounts there are; while it "
        "is built, a few columns of 8 MB more. An account has 15 numbers. Windows are read from the one array: an "
        f"observation of {n_envs} accounts is {small / 1e3:.0f} kB at window 1 and {large / 1e3:.0f} kB at window "
        f"{window}. A rollout buffer keeps observations: {n_steps} steps × {n_envs} accounts × {n_features} features "
        f"are {n_steps * small / 1e6:.1f} MB at window 1 and {n_steps * large / 1e6:.0f} MB at window {window}, for "
        "which a recurrent policy with window 1 is the alternative.",
    ]


def commit() -> str:
    """Of the source, with a mark if it was changed since."""
    here = ("git", "-C", str(Path(__file__).parent))
    found = subprocess.run((*here, "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=True)
    changed = subprocess.run((*here, "diff", "--quiet", "HEAD", "--", "../src"), check=False).returncode
    return found.stdout.strip() + (" with changes" if changed else "")


def main() -> None:
    """Step everything in turns and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="CPU time of a system in a round")
    parser.add_argument("--trainings", type=int, default=5, help="how often each training is repeated")
    arguments = parser.parse_args()
    others, missing = peers()
    found = rates({name: build() for name, build in OURS.items()} | others, arguments.rounds, arguments.seconds)
    lines = [
        "# How fast does the market step?",
        "",
        "Made by `python benchmarks/market_speed.py`: environments alone, random actions, one thread, env steps per "
        f"second of CPU time; medians of {arguments.rounds} rounds in turns.",
        "",
        f"Python {platform.python_version()}, numpy {np.__version__}, gymnasium {gymnasium.__version__}; "
        f"{BARS:,} bars, episodes of {EPISODE:,} steps. Commit {commit()}.",
        "",
        "| environment | env steps/s, median | range |",
        "|---|--:|---|",
        *(
            f"| {name} | {statistics.median(each):,.0f} | {min(each):,.0f}–{max(each):,.0f} |"
            for name, each in found.items()
        ),
        *missing,
        "",
        *memory(),
        "",
        *section(arguments.trainings),
    ]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
