"""From bars to what an agent sees of them: all features, scaled; for a whole series and bar by bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import ConfigError
from surefoot.market.features.base import Feature
from surefoot.market.features.registry import build_features, default_features
from surefoot.market.features.statistics import FeatureStatistics, moments, scale
from surefoot.market.prices import Column, Prices
from surefoot.market.spec import Spec


@dataclass(frozen=True)
class Scaled:
    """Features of a whole series."""

    values: NDArray[np.float32]
    """[T, F]; rows before ``ready`` are 0 and nobody sees them."""
    ready: int
    """The first bar at which every feature has a value."""
    statistics: FeatureStatistics


class FeaturePipeline:
    """Features in order; the same object serves training, evaluation and live use."""

    def __init__(self, features: Sequence[Feature]) -> None:
        self.features = tuple(features)

    @classmethod
    def of(cls, specs: Sequence[Spec] | None, prices: Prices) -> FeaturePipeline:
        """Features as plain data, or the default of such bars; raises if the bars lack what one needs."""
        pipeline = cls(build_features(default_features(prices) if specs is None else specs))
        pipeline.require(prices)
        return pipeline

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(column for feature in self.features for column in feature.columns)

    def require(self, prices: Prices) -> None:
        """Raise if the bars lack what a feature needs."""
        for feature in self.features:
            feature.require(prices)

    def transform(self, prices: Prices, statistics: FeatureStatistics) -> Scaled:
        """All features of a series, scaled by what was fitted elsewhere."""
        statistics.require(self.columns)
        return self._run(prices, statistics, slice(0))

    def fit_transform(self, prices: Prices, bars: slice) -> Scaled:
        """All features of a series, scaled by their statistics over ``bars``, which is the training span."""
        return self._run(prices, None, bars)

    def _run(self, prices: Prices, statistics: FeatureStatistics | None, bars: slice) -> Scaled:
        values = np.zeros((len(prices), len(self.columns)), np.float32)
        means, stds, ready = [], [], 0
        for i, (name, feature, column) in enumerate(self._columns(prices)):
            first = _first_value(column, name, prices)
            ready = max(ready, first)
            if statistics is not None:
                mean, std = statistics.mean[i], statistics.std[i]
            elif feature.scaled:
                seen = column[max(first, bars.start) : bars.stop]
                if len(seen) == 0:
                    raise ConfigError(_too_short(name, first, prices, bars))
                mean, std = moments(seen)
            else:
                mean, std = 0.0, 1.0
            means.append(mean)
            stds.append(std)
            values[first:, i] = scale(column[first:], mean, std)
        values[:ready] = 0.0
        if statistics is None:
            span = (str(prices.closes_at[bars.start]), str(prices.closes_at[bars.stop - 1]))
            statistics = FeatureStatistics(self.columns, tuple(means), tuple(stds), *span)
        return Scaled(values, ready, statistics)

    def _columns(self, prices: Prices) -> Iterator[tuple[str, Feature, Column]]:
        for feature in self.features:
            for name, column in zip(feature.columns, feature.compute(prices), strict=True):
                yield name, feature, column


class FeatureStream:
    """The bar-by-bar form: keeps as many bars as the features need, and gives the row of the newest.

    It computes with the functions of the whole-series form, on the last bars, and so gives the same bytes.
    """

    def __init__(self, pipeline: FeaturePipeline, statistics: FeatureStatistics, history: Prices) -> None:
        pipeline.require(history)
        statistics.require(pipeline.columns)
        self._pipeline, self._statistics, self._bars = pipeline, statistics, history

    def append(self, bar: Prices) -> NDArray[np.float32] | None:
        """Take one bar (or some) that closed; [F] as of its close, or None while the features warm up."""
        self._bars = join(self._bars, bar)
        scaled = self._pipeline.transform(self._bars, self._statistics)
        row = scaled.values[-1].copy() if scaled.ready < len(self._bars) else None
        needed = max(feature.bars_needed(self._bars) for feature in self._pipeline.features)
        self._bars = self._bars.cut(slice(max(0, len(self._bars) - needed), None))
        return row


def join(first: Prices, second: Prices) -> Prices:
    """The bars of ``second`` after those of ``first``."""
    if len(first) and len(second) and not second.closes_at[0] > first.closes_at[-1]:
        raise ConfigError(f"a bar that closes at {second.closes_at[0]} cannot follow the one of {first.closes_at[-1]}")
    columns: dict[str, Any] = {}
    for name in ("opens_at", "closes_at", "open", "high", "low", "close", "volume"):
        parts = [getattr(each, name) for each in (first, second)]
        if (parts[0] is None) != (parts[1] is None):
            raise ConfigError(f"a bar must have the same columns as those before it; {name} is missing in one of them")
        columns[name] = None if parts[0] is None else np.concatenate(parts)
    missing = set(first.extra) ^ set(second.extra)
    if missing:
        raise ConfigError(f"a bar must have the same columns as those before it; {min(missing)} is missing")
    extra = {name: np.concatenate([x, second.extra[name]]) for name, x in first.extra.items()}
    return replace(first, **columns, extra=extra)


def _first_value(column: Column, name: str, prices: Prices) -> int:
    """The first bar from which on there is a value; raises if one is missing after it."""
    finite = np.isfinite(column)
    first = int(np.argmax(finite)) if finite.any() else len(column)
    if not finite[first:].all():
        row = first + int(np.argmin(finite[first:]))
        raise ConfigError(
            f"the feature {name} is {column[row]} at bar {row} ({prices.closes_at[row]}); correct the data there"
        )
    return first


def _too_short(name: str, first: int, prices: Prices, bars: slice) -> str:
    known = f"{prices.closes_at[first]}" if first < len(prices) else "none of the bars"
    return (
        f"the feature {name} has its first value at {known} (it looks {first} bars back), and the span of bars "
        f"{bars.start} to {bars.stop} has none: take a longer span, more history before it, or shorter periods"
    )
