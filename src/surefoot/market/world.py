"""The parts of a market that do not change while it is stepped, built from prices and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from surefoot.errors import ConfigError
from surefoot.market.constraint import Constraint, build_constraint
from surefoot.market.costs import Costs
from surefoot.market.episodes import Episodes
from surefoot.market.features import FeaturePipeline, FeatureStatistics
from surefoot.market.limits import Limits
from surefoot.market.observation import Observer
from surefoot.market.orders import Levels, Orders, build_orders
from surefoot.market.prices import Prices
from surefoot.market.rewards import RewardSum
from surefoot.market.settings import MarketSettings
from surefoot.market.simulator import Simulator
from surefoot.market.spec import require


@dataclass(frozen=True)
class World:
    """Shared by all accounts."""

    prices: Prices
    pipeline: FeaturePipeline
    statistics: FeatureStatistics
    observer: Observer
    episodes: Episodes
    simulator: Simulator
    same_costs: bool
    """Whether no cost is multiplied."""
    orders: Orders
    flat: int
    """The level that accounts start at."""
    reward: RewardSum
    constraint: Constraint | None
    capital: float
    ruin: float
    """Money at which an account is closed."""


def build_world(prices: Prices, settings: MarketSettings) -> World:
    """Raises `ConfigError` for what cannot work, before anything is stepped."""
    require(
        isinstance(prices, Prices), f"prices must be Prices, as load_prices gives them, not {type(prices).__name__}"
    )
    pipeline = FeaturePipeline.of(settings.features, prices)
    bars = _span(prices, settings.span)
    if settings.statistics is None:
        scaled = pipeline.fit_transform(prices, bars)
    else:
        given = settings.statistics
        loaded = FeatureStatistics.load_state_dict(dict(given)) if isinstance(given, Mapping) else given
        scaled = pipeline.transform(prices, loaded)
    first, last = max(bars.start, scaled.ready + settings.window - 1), bars.stop - 1
    require(
        last > first,
        f"the span {settings.span or 'of the whole series'} is too short: it has {bars.stop - bars.start} bars, and "
        f"the first decision can be made at bar {first - bars.start} of it (features look {scaled.ready} bars back, "
        f"the window is {settings.window}, history begins {bars.start} bars before the span): take a longer span, more "
        "history before it, or a shorter window",
    )
    limits = Limits.of(prices, settings.no_trade, settings.position_limits)
    orders = build_orders(settings.action, settings.levels, settings.allow_short, limits)
    costs, multiplier = Costs.of(settings.costs), settings.multiplier_range
    episodes = Episodes(first, last, settings.length_range, settings.random_start, multiplier)
    costs.times(multiplier[1]).require_survivable(float(prices.close.min()), settings.capital, settings.ruin)
    return World(
        prices=prices,
        pipeline=pipeline,
        statistics=scaled.statistics,
        observer=Observer(scaled.values, settings.window, limits),
        episodes=episodes,
        simulator=Simulator(prices, costs, settings.rebalance_band),
        same_costs=multiplier == (1.0, 1.0),
        orders=orders,
        flat=orders.flat if isinstance(orders, Levels) else 0,
        reward=RewardSum(settings.reward),
        constraint=build_constraint(settings.cost),
        capital=float(settings.capital),
        ruin=settings.ruin * settings.capital,
    )


def _span(prices: Prices, span: tuple[str | None, str | None] | None) -> slice:
    """The bars of a span; raises if there are none."""
    try:
        first, last = (None, None) if span is None else span
        bars = prices.between(first, last)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"span = {span!r} cannot be read ({error}): write it as ('2010', '2015-06-30')") from None
    if bars.stop <= bars.start:
        known = f"the bars close from {prices.closes_at[0]} to {prices.closes_at[-1]}" if len(prices) else "no bars"
        raise ConfigError(f"span = {span!r} has no bars: {known}")
    return slice(bars.start, bars.stop)
