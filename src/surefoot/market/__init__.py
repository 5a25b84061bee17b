"""From prices to a world to trade in: checked data, causal features, a simulator of many accounts."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.market.costs import Costs as Costs
    from surefoot.market.env import Market as Market
    from surefoot.market.load import check as check
    from surefoot.market.load import load_prices as load_prices
    from surefoot.market.prices import Prices as Prices
    from surefoot.market.splits import split as split

__all__ = ["Costs", "Market", "Prices", "check", "load_prices", "split"]

_HOMES = {
    "Costs": "surefoot.market.costs",
    "Market": "surefoot.market.env",
    "Prices": "surefoot.market.prices",
    "check": "surefoot.market.load",
    "load_prices": "surefoot.market.load",
    "split": "surefoot.market.splits",
}


def __getattr__(name: str) -> Any:
    """Import on first use: whoever reads prices does not wait for the simulator, nor the other way round."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'surefoot.market' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if "gymnasium" in sys.modules:  # else `Market` registers the id: whoever only reads prices does not wait for Gymnasium
    import_module("surefoot.market.registration").register_market()
