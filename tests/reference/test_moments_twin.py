from __future__ import annotations

import functools
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import moments as slow
from reference.layouts import QUICK, flags, generator, normal, seeds
from surefoot.math.explained import explained_variance
from surefoot.math.moments import Moments, merge


@QUICK
@given(seeds, st.lists(st.integers(0, 6), max_size=6), st.sampled_from([0.0, 1.0, 1e8]), st.randoms())
def test_merged_batches_equal_their_concatenation(
    seed: int, sizes: list[int], offset: float, shuffler: random.Random
) -> None:
    rng = generator(seed)
    batches = [normal(rng, size, 2, dtype=torch.float64) + offset for size in sizes]
    parts = [Moments.from_batch(batch) for batch in batches]
    shuffler.shuffle(parts)

    merged = functools.reduce(merge, parts, Moments.empty((2,)))

    assert float(merged.count) == sum(sizes)
    for feature in range(2):
        values = [float(x) for batch in batches for x in batch[:, feature]]
        mean, variance = slow.mean_and_variance(values)
        assert float(merged.mean[feature]) == pytest.approx(mean, rel=1e-14, abs=1e-14)
        assert float(merged.variance[feature]) == pytest.approx(variance, rel=1e-7, abs=1e-14)


@QUICK
@given(seeds, st.integers(0, 6), st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0]))
def test_invalid_rows_do_not_count(seed: int, n_steps: int, n_envs: int, invalid_share: float) -> None:
    rng = generator(seed)
    x = normal(rng, n_steps, n_envs, 3)
    valid = ~flags(rng, n_steps, n_envs, probability=invalid_share)

    moments = Moments.from_batch(torch.where(valid.unsqueeze(-1), x, torch.nan), valid)

    assert float(moments.count) == int(valid.sum())
    for feature in range(3):
        mean, variance = slow.mean_and_variance(x[..., feature][valid].tolist())
        assert float(moments.mean[feature]) == pytest.approx(mean, abs=1e-12)
        assert float(moments.variance[feature]) == pytest.approx(variance, abs=1e-12)


@QUICK
@given(seeds, st.integers(2, 30), st.sampled_from([1e-20, 1.0, 1e20]), st.sampled_from([0.0, 0.4]))
def test_explained_variance_equals_the_ratio_of_exact_variances(
    seed: int, n: int, scale: float, invalid_share: float
) -> None:
    rng = generator(seed)
    targets = normal(rng, n, scale=scale)
    predictions = 0.7 * targets + normal(rng, n, scale=0.5 * scale) + scale
    valid = ~flags(rng, n, probability=invalid_share)
    valid[:2] = True

    actual = explained_variance(predictions, torch.where(valid, targets, torch.nan), valid)

    _, residual = slow.mean_and_variance((targets.double() - predictions.double())[valid].tolist())
    _, total = slow.mean_and_variance(targets[valid].tolist())
    assert float(actual) == pytest.approx(1.0 - residual / total, rel=1e-4, abs=1e-4)
