"""The market's Gymnasium id."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import gymnasium

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
    data: Any = None, prices: Prices | None = None, reading: Mapping[str, Any] | None = None, **settings: Any
) -> gymnasium.Env[Any, Any]:
    """One account on a file, a data set or ``prices``; ``reading`` is what `load_prices` takes besides the file."""
    from surefoot.market.env import MarketEnv

    return MarketEnv(_prices(data, prices, reading), **settings)


def make_market(
    num_envs: int = 1,
    data: Any = None,
    prices: Prices | None = None,
    reading: Mapping[str, Any] | None = None,
    **settings: Any,
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """The same for many accounts."""
    from surefoot.market.env import Market

    return Market(_prices(data, prices, reading), num_envs, **settings)


def _prices(data: Any, prices: Prices | None, reading: Mapping[str, Any] | None) -> Prices:
    require(
        (data is None) != (prices is None),
        f"{MARKET_ID} needs either data= (a file or the name of a data set) or prices=",
    )
    if prices is not None:
        return prices
    found: Prices = import_module("surefoot.market").load_prices(data, **(reading or {}))
    return found
