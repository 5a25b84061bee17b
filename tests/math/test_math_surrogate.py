from __future__ import annotations

import math
from typing import cast

import pytest
import torch

from surefoot.math.surrogate import (
    Bound,
    bound_log_ratio,
    clip_fraction_indicator,
    clipped_surrogate,
    importance_ratio,
)

BOUNDS: list[Bound] = ["clamp", "tanh"]


def test_equal_log_probs_give_ratio_one() -> None:
    log_prob = torch.tensor([-3.0, 0.0, 2.5])
    for bound in BOUNDS:
        assert importance_ratio(log_prob, log_prob, bound).tolist() == [1.0, 1.0, 1.0]


def test_the_ratio_is_the_exponential_of_the_difference() -> None:
    ratio = importance_ratio(torch.tensor([math.log(3.0)]), torch.tensor([math.log(2.0)]))
    torch.testing.assert_close(ratio, torch.tensor([1.5]))
    torch.testing.assert_close(importance_ratio(torch.tensor([math.log(1.5)])), torch.tensor([1.5]))


@pytest.mark.parametrize("bound", BOUNDS)
def test_log_probs_stale_by_a_thousand_give_finite_ratio_loss_and_gradient(bound: Bound) -> None:
    log_prob = torch.tensor([1e3, -1e3, 5e4, 0.0], requires_grad=True)
    ratio = importance_ratio(log_prob, torch.zeros(4), bound)
    loss = clipped_surrogate(ratio, torch.tensor([1.0, -1.0, -1.0, 1.0]), 0.2)
    (gradient,) = torch.autograd.grad(loss.sum(), log_prob)
    for x in (ratio, loss, gradient):
        assert bool(torch.isfinite(x).all())
    assert float(ratio[0].detach()) == pytest.approx(math.exp(20.0), rel=1e-5)


def test_clamp_stops_the_gradient_at_the_bound_and_tanh_does_not() -> None:
    d = torch.tensor([-60.0, -25.0, 25.0, 60.0, 150.0], requires_grad=True)
    (clamped,) = torch.autograd.grad(bound_log_ratio(d, "clamp").sum(), d)
    (smooth,) = torch.autograd.grad(bound_log_ratio(d, "tanh").sum(), d)
    assert clamped.tolist() == [0.0] * 5
    assert bool((smooth > 0).all())
    assert float(bound_log_ratio(d.detach(), "tanh").abs().max()) <= 20.0


@pytest.mark.parametrize("bound", BOUNDS)
def test_nan_stays_nan_and_infinity_is_bounded(bound: Bound) -> None:
    bounded = bound_log_ratio(torch.tensor([torch.nan, torch.inf, -torch.inf]), bound)
    assert math.isnan(float(bounded[0]))
    assert bounded[1:].tolist() == [20.0, -20.0]


def test_an_unknown_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="'clamp' or 'tanh'"):
        bound_log_ratio(torch.zeros(1), cast(Bound, "clip"))


def test_loss_by_hand_in_all_regions() -> None:
    ratio = torch.tensor([1.0, 1.5, 0.5, 1.5, 0.5])
    advantages = torch.tensor([2.0, 2.0, 2.0, -2.0, -2.0])
    # min(rA, clip(r)A) = 2, 2.4, 1, −3, −1.6
    loss = clipped_surrogate(ratio, advantages, 0.2)
    torch.testing.assert_close(loss, torch.tensor([-2.0, -2.4, -1.0, 3.0, 1.6]))


def test_the_gradient_vanishes_exactly_where_the_clip_binds() -> None:
    ratio = torch.tensor([1.0, 1.5, 0.5, 1.5, 0.5], requires_grad=True)
    advantages = torch.tensor([2.0, 2.0, 2.0, -2.0, -2.0])
    (gradient,) = torch.autograd.grad(clipped_surrogate(ratio, advantages, 0.2).sum(), ratio)
    assert gradient.tolist() == [-2.0, 0.0, -2.0, 2.0, 0.0]


def test_dual_clip_bounds_the_loss_of_bad_actions_only() -> None:
    ratio = torch.tensor([100.0, 100.0, 2.0])
    advantages = torch.tensor([-1.0, 1.0, -1.0])
    loss = clipped_surrogate(ratio, advantages, 0.2, dual_clip=3.0)
    torch.testing.assert_close(loss, torch.tensor([3.0, -1.2, 2.0]))
    with pytest.raises(ValueError, match="dual_clip must be greater than 1"):
        clipped_surrogate(ratio, advantages, 0.2, dual_clip=1.0)


@pytest.mark.parametrize("clip_range", [0.2, torch.tensor(0.2)])
def test_clip_indicator_marks_ratios_beyond_the_range(clip_range: float | torch.Tensor) -> None:
    ratio = torch.tensor([1.0, 1.19, 1.21, 0.81, 0.79], requires_grad=True)
    indicator = clip_fraction_indicator(ratio, clip_range)
    assert indicator.tolist() == [0.0, 0.0, 1.0, 0.0, 1.0]
    assert indicator.dtype == torch.float32
    assert not indicator.requires_grad
