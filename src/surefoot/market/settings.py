"""Everything that can be said about a market besides its prices, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from surefoot.market.costs import DEFAULT_COSTS, Costs
from surefoot.market.features import FeatureStatistics
from surefoot.market.spec import Spec, nearest, require


@dataclass(frozen=True)
class MarketSettings:
    """Settings of `Market`, which takes them by name."""

    span: tuple[str | None, str | None] | None = None
    """(first, last) moments of bars' closes, the last one excluded; None is the whole series. Features may look at the
    bars before it, which are past by then."""
    window: int = 1
    """How many rows of features are seen at once; 1 leaves remembering to a recurrent policy."""
    features: Sequence[Spec] | None = None
    """Such as ``["return(1)", "rsi(14)", "rsi(14)@4h"]``; None is a default list."""
    statistics: FeatureStatistics | Mapping[str, Any] | None = None
    """Of the training span, to scale features with; None fits them on ``span``, which is right for training only."""
    action: str = "target"
    """``target``: a Box, the position as a fraction of equity; ``levels``: a Discrete, one of ``levels``."""
    levels: Sequence[float] = (-1.0, 0.0, 1.0)
    """Targets to choose from."""
    allow_short: bool = True
    """Whether positions below 0 are allowed."""
    costs: Costs | Mapping[str, Any] = DEFAULT_COSTS
    """What trading and holding costs; `Costs()` is free."""
    cost_multiplier: float | tuple[float, float] = 1.0
    """Of all costs; from a pair it is drawn for each episode, log-uniformly."""
    reward: Spec | Sequence[Spec] = "log_growth"
    """Components that add up, such as ``["log_growth", "drawdown(0.1, coef=2)"]``."""
    cost: str | None = None
    """What ``info["cost"]`` is: ``drawdown:0.1``, ``turnover``, ``exposure``, or None."""
    episode_length: int | tuple[int, int] | None = None
    """Steps of an episode; from a pair it is drawn for each; None or 0 runs to the end of the span."""
    random_start: bool = True
    """Whether an episode may begin anywhere in the span. Without ``episode_length`` only the first one of each account
    does, and later ones go through the whole span."""
    no_trade: Sequence[str] = ()
    """Windows in which decisions are not carried out, such as ``"22:00-23:15"`` or ``"fri 20:00-24:00"``."""
    position_limits: Mapping[str, float] = field(default_factory=dict)
    """Largest position by window, such as ``{"always": 0.5, "fri 20:00-24:00": 0}``."""
    rebalance_band: float = 0.0
    """Trades below this fraction of equity are not made."""
    capital: float = 10_000.0
    """Money that an account starts with."""
    ruin: float = 0.1
    """The fraction of ``capital`` at which an account is closed, and its episode terminated."""

    def __post_init__(self) -> None:
        require(type(self.window) is int and self.window >= 1, f"window = {self.window!r} must be an integer from 1 on")
        require(0.0 <= self.ruin < 1.0, f"ruin = {self.ruin} must be a fraction of the capital in [0, 1)")
        require(0.0 < self.capital < np.inf, f"capital = {self.capital} must be a positive amount of money")
        require(0.0 <= self.rebalance_band < 1.0, f"rebalance_band = {self.rebalance_band} must be in [0, 1)")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> MarketSettings:
        """From names and values; an unknown name is an error that tells the nearest."""
        known = [x.name for x in fields(cls)]
        for key in given:
            require(
                key in known, f"a market has no setting {key!r}{nearest(key, known)}; there are: {', '.join(known)}"
            )
        return cls(**given)

    @property
    def length_range(self) -> tuple[int, int] | None:
        """Steps of an episode at least and at most."""
        if self.episode_length is None or self.episode_length == 0:
            return None
        pair = self.episode_length if isinstance(self.episode_length, Sequence) else (self.episode_length,) * 2
        whole = len(pair) == 2 and all(type(x) is int for x in pair)
        require(whole, f"episode_length = {self.episode_length!r} must be an integer, or a pair of them")
        return pair[0], pair[1]

    @property
    def multiplier_range(self) -> tuple[float, float]:
        """Of all costs, least and most."""
        pair = self.cost_multiplier if isinstance(self.cost_multiplier, Sequence) else (self.cost_multiplier,) * 2
        numbers = len(pair) == 2 and all(type(x) in (int, float) for x in pair)
        require(numbers, f"cost_multiplier = {self.cost_multiplier!r} must be a number, or a pair of them")
        return float(pair[0]), float(pair[1])
