"""From the section ``market`` to arguments of the env: data read and split, statistics fitted on the training span.

What comes out is plain data that stands in the run's configuration, fingerprint and statistics among it, so that
resuming, evaluating and loading need nothing else, and refuse other data.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from surefoot.config import Config, from_dict
from surefoot.config.market import READING, SIMULATED, MarketConfig
from surefoot.config.market_presets import MARKET_ID
from surefoot.config.section import changed
from surefoot.errors import ConfigError

if TYPE_CHECKING:
    from surefoot.market.prices import Prices
    from surefoot.market.splits import Splits

EVALUATIONS, PATIENCE = 20, 6
"""Of a run from the command line that says nothing about them."""


class MarketPlan(NamedTuple):
    """A configuration with the arguments of its envs, and what to tell about it."""

    config: Config
    lines: list[str]


def plan_market(config: Config, evaluate: bool = False) -> MarketPlan:
    """Read, check and split the data; every mistake is an error here, before anything is trained.

    With ``evaluate`` the validation span is evaluated in and stops training, also if the configuration does not say
    when.
    """
    from surefoot.market.env import Market
    from surefoot.market.registration import load_checked

    market = config.market
    require_market_env(config.env)
    data, reading = _place(market.data), given_settings(market, READING)
    prices = load_checked(data, reading, market.fingerprint)
    splits = _splits(prices, market)
    settings = _simulated(market)
    trained = Market(prices, 1, span=splits.train, **settings)
    kwargs = {"data": data, "fingerprint": prices.fingerprint} | ({"reading": reading} if reading else {})
    statistics = trained.statistics.state_dict()
    kwargs |= settings | {"span": list(splits.train), "statistics": statistics}
    validation = {"span": list(splits.validation), "random_start": False, "episode_length": 0, "cost_multiplier": 1.0}
    Market(prices, 1, **(settings | validation | {"statistics": statistics}))
    run = _evaluations(config) if evaluate else {}
    run = config.run.model_dump(exclude_unset=True) | run
    if run.get("eval_every"):
        run = {"eval_episodes": 1} | run | {"eval_env_kwargs": validation}
    named = market.model_copy(update={"data": data, "fingerprint": prices.fingerprint})
    planned = config.model_dump(exclude_unset=True) | {
        "env": MARKET_ID,
        "env_kwargs": kwargs,
        "market": named.model_dump(exclude_none=True),
        "run": run,
    }
    lines = described(prices, splits, bool(run.get("eval_every")))
    if evaluate and run.get("eval_every") and run["eval_every"] < config.run.eval_every:
        lines.append(
            f"validation: at the end of training alone, which is shorter than run.eval_every = {config.run.eval_every}"
        )
    return MarketPlan(from_dict(planned), lines)


def described(prices: Prices, splits: Splits, evaluates: bool) -> list[str]:
    """What is trained on, for people."""
    from surefoot.market.generators import is_generated
    from surefoot.market.prices import shown

    synthetic = "SYNTHETIC, generated and not of any market: " if is_generated(prices.source) else ""
    first, last = shown(prices.closes_at[0]), shown(prices.closes_at[-1])
    lines = [
        f"data: {synthetic}{prices.instrument} from {prices.source}, {len(prices)} bars that close from {first} to "
        f"{last}, sha256 {prices.fingerprint}"
    ]
    lines += [f"data: {words}" for words in prices.repairs]
    used = {"train": "", "validation": "" if evaluates else ", not used: run.eval_every is 0", "test": ", not touched"}
    for name, (start, end) in splits.named().items():
        bars = prices.between(start, end)
        begins, ends = (shown(prices.closes_at[i]) for i in (bars.start, bars.stop - 1))
        lines.append(f"{name}: {begins} to {ends} ({bars.stop - bars.start} bars){used[name]}")
    return lines


def moved(config: Config, data: str | None) -> Config:
    """The configuration with its data at another place; what they are is checked by their fingerprint."""
    if data is None:
        return config
    if not config.env_kwargs.get("fingerprint"):
        raise ConfigError("--data is for runs on a market that were trained from a file: this one was not")
    kwargs = config.env_kwargs | {"data": _place(data)}
    market = config.market.model_copy(update={"data": _place(data)}) if config.market.data else config.market
    return config.model_copy(update={"env_kwargs": kwargs, "market": market})


def without_place(config: Config) -> Config:
    """The configuration with data known by their fingerprint only: where the file lies decides nothing."""
    if not config.env_kwargs.get("fingerprint"):
        return config
    return moved(config, "known-by-its-fingerprint")


def require_market_env(env: str) -> None:
    """Raise unless the section ``market`` can act."""
    if env != MARKET_ID:
        raise ConfigError(f"market.data is for env = {MARKET_ID!r}, not {env!r}: leave one of them out")


def given_settings(market: MarketConfig, names: tuple[str, ...]) -> dict[str, Any]:
    """Those that differ from their default, as JSON has them."""
    found = {name: getattr(market, name) for name in names if changed(market, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _simulated(market: MarketConfig) -> dict[str, Any]:
    """What `Market` takes; one number where a pair of equal ones would say no more."""
    found = given_settings(market, SIMULATED)
    for name in ("cost_multiplier", "episode_length"):
        if name in found and len(found[name]) == 1:
            found[name] = found[name][0]
    return found


def _splits(prices: Prices, market: MarketConfig) -> Splits:
    from surefoot.market.splits import split, split_at

    if market.train:
        return split_at(prices, market.train, market.validation, market.test)
    return split(prices, market.fractions)


def _evaluations(config: Config) -> dict[str, Any]:
    """How often, and when to stop, unless the configuration says so."""
    given, found = config.run.model_fields_set, {}
    reached = -(-config.total_timesteps // config.rollout_rows) * config.rollout_rows
    if "eval_every" not in given:
        found["eval_every"] = max(config.total_timesteps // EVALUATIONS, config.rollout_rows)
    elif config.run.eval_every > reached:  # as a preset says it for a longer training
        found["eval_every"] = config.total_timesteps
    if "patience" not in given and (found or config.run.eval_every):
        found["patience"] = PATIENCE
    return found


def _place(data: str) -> str:
    """A path that is the same from everywhere; names of data sets and generated series are no paths."""
    from surefoot.market.generators import is_generated
    from surefoot.market.sources import is_data_set

    return data if is_generated(data) or is_data_set(data) else str(Path(data).absolute())
