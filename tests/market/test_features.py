"""Features: causal, exact from any history that is long enough, the same bytes bar by bar as for a whole series."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from market.bars import MINUTE, make_prices, with_future
from reference.market_features import TWINS
from surefoot.errors import ConfigError
from surefoot.market.features import (
    FEATURES,
    FeaturePipeline,
    FeatureStatistics,
    FeatureStream,
    build_feature,
    default_features,
)
from surefoot.market.prices import Prices

SHORT = (
    "return(1)",
    "return(5)",
    "ema_distance(5)",
    "rsi(4)",
    "atr(4)",
    "macd(3,6,2)",
    "bollinger(8)",
    "volatility(7)",
    "zscore(9)",
    "volume_zscore(9)",
    "time_of_day",
    "day_of_week",
    "column('signal')",
    "return(2)@1h",
    "atr(2)@4h",
    "volume_zscore(3)@1h",
    "return(1)@1d",
)
"""One of each kind and several timeframes."""


def full_prices(n: int = 700, seed: int = 1) -> Prices:
    signal = np.random.default_rng(9).standard_normal(n)
    prices = make_prices(
        n, seed, ohlc=True, volume=True, step=15 * MINUTE, timezone="America/New_York", extra={"signal": signal}
    )
    keep = np.random.default_rng(4).random(n) > 0.15  # with gaps, so that longer bars have different numbers of bars
    return prices.cut(np.flatnonzero(keep))  # type: ignore[arg-type]  # an index works as a slice does


def test_the_list_has_one_of_each_kind() -> None:
    assert {build_feature(spec).name for spec in SHORT} - {"timeframe"} == set(FEATURES)


@pytest.mark.parametrize("spec", [s for s in SHORT if build_feature(s).name in TWINS])
def test_each_feature_equals_its_definition(spec: str) -> None:
    prices, feature = make_prices(120, 3, ohlc=True, volume=True), build_feature(spec)
    (column,) = feature.compute(prices)
    settings = [getattr(feature, x.name) for x in fields(feature)]  # type: ignore[arg-type]  # a dataclass
    assert np.isnan(column[: feature.lookback]).all()
    for t in range(feature.lookback, len(prices), 7):
        assert column[t] == pytest.approx(TWINS[feature.name](prices, t, *settings), rel=1e-9, abs=1e-12)


def test_hand_worked_values() -> None:
    prices = replace(make_prices(4), close=np.array([100.0, 110.0, 99.0, 99.0]))
    (r,) = build_feature("return(1)").compute(prices)
    assert r[1:] == pytest.approx([np.log(1.1), np.log(0.9), 0.0])
    (b,) = build_feature("bollinger(3, 1)").compute(prices)
    # Closes 100, 110, 99: mean 103, squared distances 9, 49, 16, variance 74/3.
    assert b[2] == pytest.approx((99 - 103) / np.sqrt(74 / 3))
    (v,) = build_feature("volatility(2)").compute(prices)
    assert v[2] == pytest.approx(np.sqrt((np.log(1.1) ** 2 + np.log(0.9) ** 2) / 2))


def test_prices_that_never_move_give_finite_features() -> None:
    flat = np.full(300, 5.0)
    prices = replace(make_prices(300, ohlc=True), open=flat, high=flat, low=flat, close=flat)
    pipeline = FeaturePipeline.of(None, prices)
    scaled = pipeline.fit_transform(prices, slice(0, 300))
    assert np.isfinite(scaled.values).all()
    assert (scaled.values[scaled.ready :] == 0.0).all()


def test_time_is_told_by_the_clock_of_the_exchange() -> None:
    # 2020-03-08 is the day on which New York goes from UTC−5 to UTC−4, at 07:00 UTC.
    prices = make_prices(48, start="2020-03-08T00", timezone="America/New_York")
    sine, cosine = build_feature("time_of_day").compute(prices)
    hours = np.arctan2(sine, cosine) / (2 * np.pi) * 24 % 24
    assert hours[4] == pytest.approx(0.0, abs=1e-9)  # closes at 05:00 UTC = midnight
    assert hours[5] == pytest.approx(1.0)
    assert hours[6] == pytest.approx(3.0)  # 07:00 UTC: one hour is left out
    day_sine, day_cosine = build_feature("day_of_week").compute(prices)
    days = np.arctan2(day_sine, day_cosine) / (2 * np.pi) * 7 % 7
    assert days[3] == pytest.approx(5.0)  # Saturday, 23:00
    assert days[4] == pytest.approx(6.0)
    assert days[-1] == pytest.approx(0.0, abs=1e-9)  # Monday, 20:00


def test_bar_by_bar_gives_the_same_bytes_as_the_whole_series() -> None:  # E06
    prices = full_prices()
    pipeline = FeaturePipeline.of(SHORT, prices)
    scaled = pipeline.fit_transform(prices, slice(0, 400))
    assert 0 < scaled.ready < 300
    stream = FeatureStream(pipeline, scaled.statistics, prices.cut(slice(0, 1)))
    for t in range(1, len(prices)):
        row = stream.append(prices.cut(slice(t, t + 1)))
        if t < scaled.ready:
            assert row is None
        else:
            assert row is not None
            assert row.tobytes() == scaled.values[t].tobytes(), t


def test_the_default_features_bar_by_bar() -> None:
    prices = make_prices(260)
    pipeline = FeaturePipeline.of(None, prices)
    scaled = pipeline.fit_transform(prices, slice(0, 200))
    stream = FeatureStream(pipeline, scaled.statistics, prices.cut(slice(0, scaled.ready)))
    for t in range(scaled.ready, len(prices)):
        row = stream.append(prices.cut(slice(t, t + 1)))
        assert row is not None
        assert row.tobytes() == scaled.values[t].tobytes()


def test_values_do_not_depend_on_where_the_history_begins() -> None:
    prices = full_prices()
    pipeline = FeaturePipeline.of(SHORT, prices)
    whole = pipeline.fit_transform(prices, slice(0, 400))
    late = pipeline.transform(prices.cut(slice(137, None)), whole.statistics)
    assert late.values[late.ready :].tobytes() == whole.values[137 + late.ready :].tobytes()


def test_values_do_not_depend_on_what_comes_later() -> None:  # E04
    prices = full_prices(500)
    pipeline = FeaturePipeline.of(SHORT, prices)
    whole = pipeline.fit_transform(prices, slice(0, 400))
    for t in range(whole.ready, len(prices) - 2, 7):
        other = pipeline.transform(with_future(prices, t, t), whole.statistics)
        assert other.values[: t + 1].tobytes() == whole.values[: t + 1].tobytes()
        assert other.values[t + 1 :].tobytes() != whole.values[t + 1 :].tobytes()


def test_a_longer_bar_is_seen_from_its_close_on() -> None:
    close = np.arange(1.0, 13.0)
    prices = replace(make_prices(12, step=30 * MINUTE), close=close)  # closes at 00:30, 01:00, 01:30, …
    (column,) = build_feature("return(1)@1h").compute(prices)
    # Hours end at bars 1, 3, 5, …; the first one is left out, so the first return is that of bar 5 over bar 3.
    assert np.isnan(column[:5]).all()
    assert column[5:9] == pytest.approx([np.log(6 / 4), np.log(6 / 4), np.log(8 / 6), np.log(8 / 6)])


def test_a_longer_bar_whose_last_bars_are_missing_waits_for_its_end() -> None:
    prices = replace(make_prices(12, step=30 * MINUTE), close=np.arange(1.0, 13.0))
    kept = prices.cut(np.array([0, 1, 2, 3, 4, 6, 7, 8]))  # type: ignore[arg-type]  # 03:00 is missing
    (column,) = build_feature("return(1)@1h").compute(kept)
    assert np.isnan(column[:5]).all()  # at 02:30 the third hour is not over
    assert column[5] == pytest.approx(np.log(5 / 4))  # at 03:30 it is, and its last close was that of 02:30


def test_statistics_are_those_of_the_training_span_only() -> None:
    prices = make_prices(600)
    pipeline = FeaturePipeline.of(["return(1)", "rsi(14)"], prices)
    scaled = pipeline.fit_transform(prices, slice(100, 300))
    other = pipeline.fit_transform(with_future(prices, 299, 0), slice(100, 300))
    assert scaled.statistics == other.statistics
    assert scaled.values[100:300, 0].mean() == pytest.approx(0.0, abs=1e-6)
    assert scaled.values[100:300, 0].std() == pytest.approx(1.0, abs=1e-6)
    assert scaled.statistics.start == str(prices.closes_at[100])
    assert scaled.statistics.end == str(prices.closes_at[299])


def test_statistics_survive_json_exactly() -> None:
    prices = make_prices(300)
    pipeline = FeaturePipeline.of(None, prices)
    fitted = pipeline.fit_transform(prices, slice(0, 250))
    loaded = FeatureStatistics.load_state_dict(json.loads(json.dumps(fitted.statistics.state_dict())))
    assert loaded == fitted.statistics
    assert pipeline.transform(prices, loaded).values.tobytes() == fitted.values.tobytes()


def test_the_smallest_move_is_seen() -> None:  # E05
    """A tick of a hundredth of a pip moves float32 observations, whatever the price level."""
    prices = replace(make_prices(300, volatility=1e-4), close=1.0 + 1e-4 * np.cumsum(np.full(300, 1e-3)))
    noisy = prices.close * np.exp(1e-4 * np.random.default_rng(0).standard_normal(300))
    moved = noisy.copy()
    moved[250] += 1e-6
    pipeline = FeaturePipeline.of(None, prices)
    fitted = pipeline.fit_transform(replace(prices, close=noisy), slice(0, 240))
    other = pipeline.transform(replace(prices, close=moved), fitted.statistics)
    assert np.abs(other.values[250] - fitted.values[250]).max() > 1e-3


def test_default_features() -> None:
    assert len(default_features(make_prices(10))) == 8
    assert "atr(14)" in default_features(make_prices(10, ohlc=True))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("rsy(14)", "did you mean 'rsi'"),
        ("rsi(0)", "period is 0"),
        ("rsi(14, 3)", "has 2 numbers, rsi takes 1"),
        ("rsi(perod=14)", "did you mean 'period'"),
        ("rsi(14.5)", "must be int"),
        ("rsi(True)", "must be int"),
        ("rsi(", "cannot be read"),
        ("__import__('os').getcwd()", "cannot be read"),
        ("macd(26, 12)", "fast must be less"),
        ("rsi(14)@1x", "timeframe '1x' cannot be read"),
        ({"period": 14}, "has no name"),
        (14, "must be text"),
        ("bollinger(1)", "at least 2"),
    ],
)
def test_mistakes_in_a_feature_are_named(spec: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        build_feature(spec)


def test_features_as_dicts() -> None:
    assert build_feature({"name": "rsi", "period": 7, "timeframe": "4h"}).title == "rsi(7)@4h"
    assert build_feature("rsi(period=7)") == build_feature("rsi(7)")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("atr(14)", "needs open, high and low"),
        ("volume_zscore(10)", "needs volume"),
        ("atr(14)@1d", "needs open, high and low"),
        ("column('sgnal')", "did you mean 'signal'"),
    ],
)
def test_data_that_lack_what_a_feature_needs(spec: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        FeaturePipeline.of([spec], make_prices(50, extra={"signal": np.zeros(50)}))


def test_other_mistakes_are_named() -> None:
    prices = make_prices(50, extra={"signal": np.where(np.arange(50) == 30, np.nan, 1.0)})
    with pytest.raises(ConfigError, match="listed twice"):
        FeaturePipeline.of(["rsi(14)", "rsi"], prices)
    with pytest.raises(ConfigError, match="must be a list"):
        FeaturePipeline.of("rsi(14)", prices)
    with pytest.raises(ConfigError, match="empty"):
        FeaturePipeline.of([], prices)
    with pytest.raises(ConfigError, match="nan at bar 30"):
        FeaturePipeline.of(["column('signal')"], prices).fit_transform(prices, slice(0, 50))
    with pytest.raises(ConfigError, match="looks 50 bars back"):
        FeaturePipeline.of(["rsi(14)"], prices).fit_transform(prices, slice(0, 50))
    pipeline = FeaturePipeline.of(["return(1)"], prices)
    statistics = pipeline.fit_transform(prices, slice(0, 50)).statistics
    with pytest.raises(ConfigError, match=r"other features.*return\(1\) and return\(2\)"):
        FeaturePipeline.of(["return(2)"], prices).transform(prices, statistics)
    with pytest.raises(ConfigError, match="no statistics"):
        FeatureStatistics.load_state_dict({"columns": ["a"], "mean": [0.0], "std": [0.0], "start": "", "end": ""})
    stream = FeatureStream(pipeline, statistics, prices)
    with pytest.raises(ConfigError, match="cannot follow"):
        stream.append(prices.cut(slice(3, 4)))


def test_a_million_bars_take_seconds_not_minutes() -> None:
    """A tenth of them, so that the test is quick."""
    prices = make_prices(100_000, step=MINUTE, volatility=1e-4)
    scaled = FeaturePipeline.of(None, prices).fit_transform(prices, slice(0, 50_000))
    assert scaled.values.shape == (100_000, 8)
    assert scaled.values.dtype == np.float32
