from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import kl as slow
from reference.layouts import QUICK, generator, normal, seeds
from surefoot.math.kl import bernoulli_kl, beta_kl, categorical_kl, gaussian_kl, k3

finite_log_ratios = st.floats(-1e4, 1e4, width=32)
small_log_ratios = st.floats(-0.5, 0.5, width=32)


@QUICK
@given(st.one_of(finite_log_ratios, small_log_ratios))
def test_k3_equals_the_many_digit_value(d: float) -> None:
    actual = float(k3(torch.tensor(d, dtype=torch.float32)))
    assert actual >= 0.0
    # Squares below the smallest normal float32 lose digits or vanish.
    assert actual == pytest.approx(slow.k3(d), rel=2e-6, abs=1e-37)


@QUICK
@given(st.one_of(st.floats(-30, 20), st.floats(-0.2, 0.2).filter(lambda d: d == 0.0 or abs(d) > 1e-150)))
def test_k3_in_double_precision_equals_the_many_digit_value(d: float) -> None:
    assert float(k3(torch.tensor(d, dtype=torch.float64))) == pytest.approx(slow.k3(d), rel=1e-13, abs=1e-300)


@QUICK
@given(seeds, st.integers(1, 8), st.sampled_from([1e-4, 1e-2, 1.0, 20.0]))
def test_categorical_kl_equals_the_sum(seed: int, n: int, distance: float) -> None:
    rng = generator(seed)
    logits = normal(rng, 3, n, scale=3.0, dtype=torch.float64)
    log_p = torch.log_softmax(logits, -1)
    log_q = torch.log_softmax(logits + distance * normal(rng, 3, n, dtype=torch.float64), -1)

    actual = categorical_kl(log_p, log_q)

    for row in range(3):
        expected = slow.categorical(log_p[row].exp().tolist(), log_q[row].exp().tolist())
        assert float(actual[row]) == pytest.approx(expected, rel=1e-6, abs=1e-13)
    assert bool((categorical_kl(log_p.float(), log_q.float()) >= 0).all())


@pytest.mark.parametrize(("mean", "std"), [((0.0, 0.0), (1.0, 1.0)), ((0.3, -0.4), (0.5, 0.8)), ((1, 1), (2, 1))])
def test_gaussian_kl_equals_the_integral(mean: tuple[float, float], std: tuple[float, float]) -> None:
    (mean_p, mean_q), (std_p, std_q) = mean, std
    expected = slow.by_integration(
        slow.log_normal_density(mean_p, std_p), slow.log_normal_density(mean_q, std_q), -25.0, 25.0
    )
    actual = gaussian_kl(*(torch.tensor([[x]]) for x in (mean_p, math.log(std_p), mean_q, math.log(std_q))))
    assert float(actual) == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(("p", "q"), [((2.0, 3.0), (2.0, 3.0)), ((2.0, 5.0), (4.0, 1.5)), ((8.0, 8.0), (1.0, 1.0))])
def test_beta_kl_equals_the_integral(p: tuple[float, float], q: tuple[float, float]) -> None:
    expected = slow.by_integration(slow.log_beta_density(*p), slow.log_beta_density(*q), 0.0, 1.0)
    actual = beta_kl(*(torch.tensor([[x]]) for x in (*p, *q)))
    assert float(actual) == pytest.approx(expected, rel=1e-4, abs=1e-6)


@QUICK
@given(seeds, st.sampled_from([0.1, 3.0, 12.0]))
def test_bernoulli_kl_is_the_categorical_one_of_two_actions(seed: int, scale: float) -> None:
    rng = generator(seed)
    p, q = normal(rng, 4, 3, scale=scale), normal(rng, 4, 3, scale=scale)
    two_p, two_q = (torch.log_softmax(torch.stack([x, torch.zeros_like(x)], -1), -1) for x in (p, q))
    torch.testing.assert_close(bernoulli_kl(p, q), categorical_kl(two_p, two_q).sum(-1), rtol=1e-4, atol=1e-6)
