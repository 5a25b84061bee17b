"""The classical rules of each world by name, and fixed bands whose width is chosen on paths of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from surefoot.errors import ConfigError
from surefoot.hedging.dynamics import BinomialTree, Heston, dynamics_named
from surefoot.hedging.evaluation import cvar_loss, evaluate_strategy
from surefoot.hedging.heston_hedge import ModelHedge
from surefoot.hedging.strategies import Band, Delta, NoHedge, Strategy, TreeDelta, WhalleyWilmott

CHOOSING_SEED = 1_000_003
"""Of the paths on which widths are chosen; evaluations use others."""
WIDEST, TOLERANCE = 0.5, 0.005


def classical_strategies(env_kwargs: Mapping[str, Any], level: float = 0.95) -> dict[str, Strategy]:
    """What an agent is compared with in the world that ``env_kwargs`` describe."""
    dynamics = dynamics_named(env_kwargs.get("dynamics", "black_scholes"))
    cost_rate = float(env_kwargs.get("cost_rate", 0.0))
    found: dict[str, Strategy] = {"no hedge": NoHedge(dynamics)}
    if isinstance(dynamics, Heston):
        return found | {"model hedge": ModelHedge(dynamics)}
    found["delta"] = Delta(dynamics)
    if isinstance(dynamics, BinomialTree):
        found["replication"] = TreeDelta(dynamics)
    if cost_rate > 0.0:
        found["Whalley–Wilmott"] = WhalleyWilmott(dynamics, cost_rate)
        found["best band"] = best_band(env_kwargs, level)
    return found


def best_band(
    env_kwargs: Mapping[str, Any], level: float = 0.95, n_paths: int = 50_000, seed: int = CHOOSING_SEED
) -> Band:
    """The fixed band around the delta with the lowest CVaR of the loss, to 0.005 of width."""
    dynamics = dynamics_named(env_kwargs.get("dynamics", "black_scholes"))
    loss = _band_loss(env_kwargs, level, n_paths, seed)
    return Band(dynamics, golden_section(loss, 0.0, WIDEST, TOLERANCE))


def best_band_within(
    env_kwargs: Mapping[str, Any],
    loss_limit: float,
    level: float = 0.95,
    n_paths: int = 50_000,
    seed: int = CHOOSING_SEED,
) -> Band:
    """The fixed band with the best mean P&L among those whose CVaR of the loss is at most ``loss_limit``.

    Prices are martingales, so that the mean is what costs leave, and the widest band trades least. The loss is lowest
    at the best band and rises from there.
    """
    dynamics = dynamics_named(env_kwargs.get("dynamics", "black_scholes"))
    loss = _band_loss(env_kwargs, level, n_paths, seed)
    low, high = golden_section(loss, 0.0, WIDEST, TOLERANCE), WIDEST
    if loss(low) > loss_limit:
        raise ConfigError(
            f"loss_limit = {loss_limit}: the best fixed band (width {low:.3f}) has a CVaR{100 * level:.4g} of the loss "
            f"of {loss(low):.3f}; no band keeps the limit"
        )
    if loss(high) <= loss_limit:
        return Band(dynamics, high)
    while high - low > TOLERANCE / 5.0:
        middle = (low + high) / 2.0
        low, high = (middle, high) if loss(middle) <= loss_limit else (low, middle)
    return Band(dynamics, low)


def _band_loss(env_kwargs: Mapping[str, Any], level: float, n_paths: int, seed: int) -> Callable[[float], float]:
    dynamics = dynamics_named(env_kwargs.get("dynamics", "black_scholes"))
    return lambda width: cvar_loss(evaluate_strategy(Band(dynamics, width), env_kwargs, n_paths, seed), level)


def golden_section(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Where a function with a single minimum in [low, high] has it, to ``tolerance``; one evaluation per shrinking."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > tolerance:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right
