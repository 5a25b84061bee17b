from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import surrogate as slow
from reference.layouts import QUICK, flags, generator, normal, seeds
from surefoot.math.surrogate import Bound, clipped_surrogate, importance_ratio, log_ratio_statistics

bounds: st.SearchStrategy[Bound] = st.sampled_from(["clamp", "tanh"])


@QUICK
@given(seeds, bounds, st.sampled_from([0.01, 1.0, 30.0, 1e3]))
def test_ratio_equals_its_twin_and_is_finite(seed: int, bound: Bound, scale: float) -> None:
    rng = generator(seed)
    log_prob, old = normal(rng, 20, scale=scale), normal(rng, 20, scale=scale)

    actual = importance_ratio(log_prob, old, bound)

    expected = [slow.ratio(float(d), 0.0, bound) for d in (log_prob - old)]
    torch.testing.assert_close(actual, torch.tensor(expected), rtol=2e-5, atol=0.0)
    assert bool(torch.isfinite(actual).all())


@QUICK
@given(seeds, st.sampled_from([0.05, 0.2, 0.5]), st.sampled_from([None, 1.5, 3.0]))
def test_loss_equals_its_twin_and_dual_clip_bounds_it(seed: int, clip: float, dual: float | None) -> None:
    rng = generator(seed)
    ratio, advantages = torch.exp(normal(rng, 30, scale=1.5)), normal(rng, 30)
    advantages[0] = 0.0

    actual = clipped_surrogate(ratio, advantages, clip, dual)
    from_tensor = clipped_surrogate(ratio, advantages, torch.tensor(clip), dual)

    pairs = zip(ratio.tolist(), advantages.tolist(), strict=True)
    expected = [slow.loss(r, a, clip, dual) for r, a in pairs]
    torch.testing.assert_close(actual, torch.tensor(expected), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(from_tensor, actual, rtol=1e-5, atol=1e-6)
    if dual is not None:
        assert bool((actual <= dual * advantages.abs() + 1e-5).all())


@QUICK
@given(seeds, st.integers(0, 30), st.sampled_from([0.0, 0.3, 1.0]))
def test_statistics_equal_plain_counting(seed: int, n: int, missing: float) -> None:
    rng = generator(seed)
    d = normal(rng, n, scale=15.0)
    d[flags(rng, n, probability=0.1)] = torch.nan
    d[flags(rng, n, probability=0.1)] = torch.inf
    weight = 1.0 - flags(rng, n, probability=missing).float()

    stats = log_ratio_statistics(d, weight)

    samples = [x for x, w in zip(d.tolist(), weight.tolist(), strict=True) if w > 0]
    finite = [x for x in samples if math.isfinite(x)]
    assert int(stats.nan_count) == sum(math.isnan(x) for x in samples)
    assert int(stats.inf_count) == sum(math.isinf(x) for x in samples)
    if not samples:
        assert math.isnan(float(stats.bounded_fraction))
    else:
        assert float(stats.bounded_fraction) == pytest.approx(sum(abs(x) > 20 for x in samples) / len(samples))
        assert float(stats.extreme_fraction) == pytest.approx(sum(abs(x) > 10 for x in samples) / len(samples))
    if not finite:
        assert math.isnan(float(stats.mean))
        return
    mean = math.fsum(finite) / len(finite)
    variance = math.fsum((x - mean) ** 2 for x in finite) / len(finite)
    assert float(stats.mean) == pytest.approx(mean, abs=1e-4)
    assert float(stats.std) == pytest.approx(math.sqrt(variance), abs=1e-3)
    assert float(stats.max_abs) == pytest.approx(max(abs(x) for x in finite))
