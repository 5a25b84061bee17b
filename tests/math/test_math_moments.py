from __future__ import annotations

import math

import pytest
import torch

from surefoot.math.explained import explained_variance
from surefoot.math.moments import Moments, merge


def test_batch_by_hand() -> None:
    moments = Moments.from_batch(torch.tensor([[1.0, 10.0], [3.0, 10.0]]))
    assert float(moments.count) == 2.0
    assert moments.mean.tolist() == [2.0, 10.0]
    assert moments.m2.tolist() == [2.0, 0.0]
    assert moments.variance.tolist() == [1.0, 0.0]
    assert moments.std.tolist() == [1.0, 0.0]


def test_merge_by_hand() -> None:
    merged = merge(Moments.from_batch(torch.tensor([1.0, 3.0])), Moments.from_batch(torch.tensor([8.0])))
    # 1, 3, 8: mean 4, squares 9 + 1 + 16
    assert (float(merged.count), float(merged.mean), float(merged.m2)) == (3.0, 4.0, 26.0)


def test_everything_is_double_precision_whatever_comes_in() -> None:
    moments = merge(Moments.empty((3,)), Moments.from_batch(torch.ones(2, 3, dtype=torch.float16)))
    assert {x.dtype for x in (moments.count, moments.mean, moments.m2)} == {torch.float64}


def test_nothing_merges_to_nothing_without_nan() -> None:
    nothing = merge(Moments.empty((2,)), Moments.from_batch(torch.zeros(0, 2)))
    assert float(nothing.count) == 0.0
    assert nothing.mean.tolist() == nothing.variance.tolist() == nothing.std.tolist() == [0.0, 0.0]
    something = Moments.from_batch(torch.tensor([[5.0, 6.0]]))
    for merged in (merge(nothing, something), merge(something, nothing)):
        assert merged.mean.tolist() == [5.0, 6.0]
        assert float(merged.count) == 1.0


def test_a_large_offset_does_not_destroy_the_variance() -> None:
    x = torch.tensor([1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0], dtype=torch.float64)
    parts = [Moments.from_batch(part) for part in (x[:1], x[1:3], x[3:])]
    merged = merge(merge(parts[0], parts[1]), parts[2])
    assert float(merged.variance) == pytest.approx(22.5, rel=1e-9)


def test_merging_changes_neither_part() -> None:
    a, b = Moments.from_batch(torch.tensor([1.0, 2.0])), Moments.from_batch(torch.tensor([5.0]))
    merge(a, b)
    assert (float(a.count), float(a.mean), float(a.m2)) == (2.0, 1.5, 0.5)
    assert float(b.mean) == 5.0


def test_explained_variance_by_hand() -> None:
    targets = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert float(explained_variance(targets, targets)) == 1.0
    assert float(explained_variance(targets + 7.0, targets)) == pytest.approx(1.0)
    assert float(explained_variance(torch.zeros(4), targets)) == pytest.approx(0.0, abs=1e-6)
    assert float(explained_variance(-targets, targets)) == pytest.approx(-3.0)
    # residuals ½, −½, ½, −½: variance ¼ of 1¼
    noisy = targets - torch.tensor([0.5, -0.5, 0.5, -0.5])
    assert float(explained_variance(noisy, targets)) == pytest.approx(0.8)


def test_explained_variance_is_undefined_where_nothing_varies() -> None:
    cases = [
        (torch.randn(5), torch.full((5,), 2.0), None),
        (torch.randn(2), 1e6 + torch.tensor([0.0, 0.0625]), None),
        (torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, False])),
        (torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)),
        (torch.zeros(0), torch.zeros(0), None),
    ]
    for predictions, targets, valid in cases:
        result = explained_variance(predictions, targets, valid)
        assert result.shape == ()
        assert math.isnan(float(result))


def test_explained_variance_ignores_invalid_rows() -> None:
    targets = torch.tensor([[1.0, torch.nan], [2.0, torch.inf], [3.0, 1e30]])
    predictions = torch.tensor([[1.0, 0.0], [2.0, torch.nan], [3.0, 0.0]])
    valid = torch.tensor([[True, False]] * 3)
    assert float(explained_variance(predictions, targets, valid)) == 1.0
