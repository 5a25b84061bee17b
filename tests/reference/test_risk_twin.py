from __future__ import annotations

import warnings
from statistics import NormalDist

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import risk as slow
from reference.layouts import QUICK, distribution, generator, normal, seeds
from surefoot.errors import SurefootWarning
from surefoot.math.risk import (
    Rule,
    cvar_from_atoms,
    cvar_from_quantiles,
    cvar_from_samples,
    var_from_quantiles,
)

rules: st.SearchStrategy[Rule] = st.sampled_from(["tail", "step"])
alphas = st.one_of(st.floats(0.02, 1.0), st.sampled_from([0.05, 0.25, 0.5, 1.0]))


def _quantiles(seed: int, n: int, ties: bool, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Rows of all kinds: unsorted normal draws, heavy tails, constants, ties."""
    rng = generator(seed)
    q = normal(rng, 4, n, dtype=dtype)
    q[1] = q[1].exp()
    q[2] = -(2.0 * q[2]).exp()
    q[3] = 7.0
    return q.round() if ties else q


def _quietly(q: torch.Tensor, alpha: float, rule: Rule) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)
        return cvar_from_quantiles(q, alpha, rule)


@QUICK
@given(seeds, st.integers(1, 60), alphas, st.booleans())
def test_step_rule_equals_filling_up_from_below(seed: int, n: int, alpha: float, ties: bool) -> None:
    q = _quantiles(seed, n, ties)
    expected = [slow.cvar_of_masses([1.0 / n] * n, row, alpha) for row in q.tolist()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)
        from_samples = cvar_from_samples(q, alpha)
    for actual in (_quietly(q, alpha, "step"), from_samples):
        torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


@QUICK
@given(seeds, st.integers(1, 30), alphas)
def test_atoms_equal_filling_up_from_below(seed: int, k: int, alpha: float) -> None:
    rng = generator(seed)
    probs = distribution(rng, 4, k, dtype=torch.float64)
    atoms = normal(rng, k, dtype=torch.float64)
    expected = [slow.cvar_of_masses(row, atoms.tolist(), alpha) for row in probs.tolist()]
    torch.testing.assert_close(
        cvar_from_atoms(probs, atoms, alpha),
        torch.tensor(expected, dtype=torch.float64),
        rtol=1e-9,
        atol=1e-9,
    )


@settings(parent=QUICK, max_examples=12)
@given(seeds, st.integers(7, 60), st.floats(0.02, 0.5))
def test_tail_rule_equals_the_integral_of_its_quantile_function(seed: int, n: int, alpha: float) -> None:
    levels = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    q = torch.special.ndtri(levels) + 0.02 * normal(generator(seed), n, dtype=torch.float64)
    quantile_function = slow.tail_quantile_function(q.tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)
        value_at_risk = var_from_quantiles(q, alpha)
    actual = _quietly(q, alpha, "tail")
    assert float(actual) == pytest.approx(slow.lower_mean(quantile_function, alpha), rel=1e-4, abs=1e-4)
    assert float(value_at_risk) == pytest.approx(quantile_function(NormalDist().inv_cdf(alpha)), rel=1e-5, abs=1e-5)


@QUICK
@given(seeds, st.integers(1, 60), alphas, rules, st.floats(0.01, 100.0), st.floats(-100.0, 100.0), st.booleans())
def test_cvar_moves_with_location_and_scale(
    seed: int, n: int, alpha: float, rule: Rule, scale: float, shift: float, ties: bool
) -> None:
    q = _quantiles(seed, n, ties)
    torch.testing.assert_close(
        _quietly(scale * q + shift, alpha, rule),
        scale * _quietly(q, alpha, rule) + shift,
        rtol=1e-7,
        atol=1e-7,
    )


@QUICK
@given(seeds, st.integers(1, 60), rules, st.booleans())
def test_cvar_does_not_fall_with_alpha_and_ends_at_the_mean(seed: int, n: int, rule: Rule, ties: bool) -> None:
    q = _quantiles(seed, n, ties)
    ladder = torch.stack([_quietly(q, alpha, rule) for alpha in torch.linspace(0.02, 1.0, 50).tolist()])
    assert bool((ladder.diff(dim=0) >= -1e-9).all())
    torch.testing.assert_close(ladder[-1], q.mean(-1), rtol=1e-6, atol=1e-6)


@QUICK
@given(seeds, st.integers(1, 60), alphas, rules)
def test_cvar_does_not_exceed_value_at_risk(seed: int, n: int, alpha: float, rule: Rule) -> None:
    q = _quantiles(seed, n, ties=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)
        value_at_risk = var_from_quantiles(q, alpha, rule)
    assert bool((_quietly(q, alpha, rule) <= value_at_risk + 1e-9).all())
