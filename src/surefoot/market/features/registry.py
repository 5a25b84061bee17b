"""All features by name. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from surefoot.errors import ConfigError
from surefoot.market.features.atr import Atr
from surefoot.market.features.base import Feature
from surefoot.market.features.bollinger import Bollinger
from surefoot.market.features.clock import DayOfWeek, TimeOfDay
from surefoot.market.features.column import ExtraColumn
from surefoot.market.features.ema_distance import EmaDistance
from surefoot.market.features.macd import Macd
from surefoot.market.features.returns import Return
from surefoot.market.features.rsi import Rsi
from surefoot.market.features.timeframe import Timeframe
from surefoot.market.features.volatility import Volatility
from surefoot.market.features.zscore import VolumeZScore, ZScore
from surefoot.market.prices import Prices
from surefoot.market.spec import Spec, build

FEATURES: dict[str, type[Feature]] = {
    kind.name: kind
    for kind in (
        Return,
        EmaDistance,
        Rsi,
        Atr,
        Macd,
        Bollinger,
        Volatility,
        ZScore,
        VolumeZScore,
        TimeOfDay,
        DayOfWeek,
        ExtraColumn,
    )
}
CLOSE_ONLY = (
    "return(1)",
    "return(5)",
    "return(20)",
    "ema_distance(20)",
    "rsi(14)",
    "macd(12,26,9)",
    "bollinger(20)",
    "volatility(20)",
)
"""The default for data with closes only."""
OHLC = (*CLOSE_ONLY, "atr(14)")
"""The default for data with open, high, low and close."""


def default_features(prices: Prices) -> tuple[str, ...]:
    """What is computed if nothing is asked for."""
    return OHLC if prices.has_ohlc else CLOSE_ONLY


def build_feature(spec: Spec) -> Feature:
    """``"rsi(14)"``, ``"rsi(14)@1h"``, or ``{"name": "rsi", "period": 14, "timeframe": "1h"}``."""
    plain: Spec = spec
    timeframe = None
    if isinstance(spec, Mapping):
        settings = dict(spec)
        timeframe, plain = settings.pop("timeframe", None), settings
    elif isinstance(spec, str) and "@" in spec:
        plain, _, timeframe = spec.rpartition("@")
    feature = build(plain, FEATURES, "the feature")
    return feature if timeframe is None else Timeframe(feature, timeframe)


def build_features(specs: Sequence[Spec]) -> tuple[Feature, ...]:
    """A list of features, each once."""
    if isinstance(specs, str | Mapping):
        raise ConfigError(f"features must be a list such as ['return(1)', 'rsi(14)'], not {specs!r}")
    features = tuple(build_feature(spec) for spec in specs)
    if not features:
        raise ConfigError("the list of features is empty: name at least one, such as 'return(1)'")
    columns = [column for feature in features for column in feature.columns]
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise ConfigError(f"the feature {twice} is listed twice")
    return features
