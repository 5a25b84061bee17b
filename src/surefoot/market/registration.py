"""The market's Gymnasium id."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import gymnasium

from surefoot.errors import ConfigError
from surefoot.market.prices import Prices
from surefoot.market.spec import require

MARKET_ID = "surefoot/Market-v0"


def register_market() -> None:
    """Make the id known to `gymnasium.make` and `gymnasium.make_vec`; calling it again does nothing."""
    if MARKET_ID not in gymnasium.registry:
        gymnasium.register(
            MARKET_ID,
            "surefoot.market.registration:make_market_env",
            vector_entry_point="surefoot.market.registration:make_market",
        )


def make_market_env(
    data: Any = None,
    prices: Prices | None = None,
    reading: Mapping[str, Any] | None = None,
    fingerprint: str = "",
    **settings: Any,
) -> gymnasium.Env[Any, Any]:
    """One account on a file, a data set or ``prices``; ``reading`` is what `load_prices` takes besides the file, and
    other data than those of the ``fingerprint``, if it is given, are refused."""
    from surefoot.market.env import MarketEnv

    return MarketEnv(_prices(data, prices, reading, fingerprint), **settings)


def make_market(
    num_envs: int = 1,
    data: Any = None,
    prices: Prices | None = None,
    reading: Mapping[str, Any] | None = None,
    fingerprint: str = "",
    **settings: Any,
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """The same for many accounts."""
    from surefoot.market.env import Market

    return Market(_prices(data, prices, reading, fingerprint), num_envs, **settings)


def load_checked(data: Any, reading: Mapping[str, Any] | None = None, fingerprint: str = "") -> Prices:
    """Prices that are those of the fingerprint, if one is given."""
    if fingerprint and isinstance(data, str) and _is_missing(data):
        raise ConfigError(
            f"the data are no longer at {data}: if the file was moved, say where with --data FILE (env_kwargs['data'] "
            f"in Python); its sha256 must be {fingerprint}"
        )
    prices: Prices = import_module("surefoot.market").load_prices(data, **(reading or {}))
    if fingerprint and prices.fingerprint != fingerprint:
        raise ConfigError(
            f"the data at {data} are not those of the run: their sha256 is {prices.fingerprint}, the run's is "
            f"{fingerprint}. Give the run's own file with --data FILE, or train anew on these data"
        )
    return prices


def _is_missing(data: str) -> bool:
    from surefoot.market.generators import is_generated
    from surefoot.market.sources import is_data_set

    return not (is_generated(data) or is_data_set(data) or os.path.exists(data))


def _prices(data: Any, prices: Prices | None, reading: Mapping[str, Any] | None, fingerprint: str) -> Prices:
    require(
        (data is None) != (prices is None),
        f"{MARKET_ID} needs either data= (a file or the name of a data set) or prices=",
    )
    return load_checked(data, reading, fingerprint) if prices is None else prices
