from __future__ import annotations

import math
import warnings
from typing import cast

import pytest
import torch

from surefoot.errors import SurefootWarning
from surefoot.math.quantile import midpoints
from surefoot.math.risk import (
    Rule,
    cvar_from_atoms,
    cvar_from_quantiles,
    cvar_from_samples,
    mean_cvar,
    mixture_cvar_from_quantiles,
    var_from_quantiles,
    var_from_samples,
)

TEN = torch.tensor([10.0, 1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0, 6.0, 5.0])
RULES: list[Rule] = ["tail", "step"]


def test_step_rule_by_hand() -> None:
    # α·N = 2.5: (1 + 2 + ½·3)/2.5
    assert float(cvar_from_quantiles(TEN, 0.25, rule="step")) == pytest.approx(1.8)
    assert float(cvar_from_samples(TEN, 0.25)) == pytest.approx(1.8)
    assert float(cvar_from_samples(TEN, 0.1)) == pytest.approx(1.0)
    assert float(cvar_from_samples(TEN, 1.0)) == pytest.approx(5.5)
    assert float(var_from_samples(TEN, 0.25)) == 3.0
    assert float(var_from_samples(TEN, 0.3)) == 3.0
    assert float(var_from_quantiles(TEN, 0.1, rule="step")) == 1.0


def test_atoms_by_hand_in_any_order() -> None:
    atoms, probs = torch.tensor([0.0, -10.0, 5.0]), torch.tensor([[0.6, 0.1, 0.3], [0.0, 1.0, 0.0]])
    # first row: (0.1·(−10) + 0.1·0)/0.2 = −5
    torch.testing.assert_close(cvar_from_atoms(probs, atoms, 0.2), torch.tensor([-5.0, -10.0]))
    torch.testing.assert_close(cvar_from_atoms(probs, atoms, 1.0), torch.tensor([0.5, -10.0]))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("ignore::surefoot.errors.SurefootWarning")
def test_one_quantile_and_constant_quantiles_are_their_own_tail(rule: Rule) -> None:
    for n in (1, 2, 3, 5, 32):
        q = torch.full((n,), -3.7)
        for alpha in (1.0, 0.5, 1.0 / n):
            assert float(cvar_from_quantiles(q, alpha, rule)) == pytest.approx(-3.7, rel=1e-6)
            assert float(var_from_quantiles(q, alpha, rule)) == pytest.approx(-3.7, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.25, 0.5])
@pytest.mark.parametrize("n", [21, 32, 51, 101])
@pytest.mark.filterwarnings("ignore::surefoot.errors.SurefootWarning")
def test_tail_rule_is_exact_for_normal_distributions(n: int, alpha: float) -> None:
    q = 3.0 + 2.0 * torch.special.ndtri(midpoints(n, dtype=torch.float64)).float()
    score = float(torch.special.ndtri(torch.tensor(alpha, dtype=torch.float64)))
    density = math.exp(-0.5 * score * score) / math.sqrt(2.0 * math.pi)
    assert float(cvar_from_quantiles(q, alpha)) == pytest.approx(3.0 - 2.0 * density / alpha, rel=1e-5)
    assert float(var_from_quantiles(q, alpha)) == pytest.approx(3.0 + 2.0 * score, rel=1e-5, abs=1e-5)


def test_a_rare_crash_is_not_extrapolated() -> None:
    q = torch.cat([torch.tensor([-10.0]), torch.linspace(0.9, 1.1, 19)])
    torch.testing.assert_close(cvar_from_quantiles(q, 0.05), torch.tensor(-10.0))
    torch.testing.assert_close(cvar_from_quantiles(q, 0.1), cvar_from_quantiles(q, 0.1, rule="step"))
    assert float(var_from_quantiles(q, 0.05)) == -10.0


@pytest.mark.parametrize("rule", RULES)
def test_quantiles_are_sorted_first_and_batches_are_independent(rule: Rule) -> None:
    torch.manual_seed(0)
    q = torch.randn(2, 3, 16)
    shuffled = q[..., torch.randperm(16)]
    batched = cvar_from_quantiles(q, 0.2, rule)
    assert batched.shape == (2, 3)
    torch.testing.assert_close(cvar_from_quantiles(shuffled, 0.2, rule), batched)
    torch.testing.assert_close(cvar_from_quantiles(q[1, 2], 0.2, rule), batched[1, 2])


@pytest.mark.parametrize("alpha", [0.07, 0.2, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("rule", RULES)
def test_cvar_is_differentiable(rule: Rule, alpha: float) -> None:
    torch.manual_seed(0)
    q = torch.randn(3, 16, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: cvar_from_quantiles(x, alpha, rule), (q,))
    assert torch.autograd.gradcheck(lambda x: var_from_quantiles(x, alpha, rule), (q,))


def test_gradients_stay_finite_where_quantiles_coincide() -> None:
    for row in ([0.0] * 9, [0.0] * 4 + [1.0] * 5, [-5.0] + [0.0] * 8, [-1e-30] + [0.0] * 8):
        q = torch.tensor(row, requires_grad=True)
        (gradient,) = torch.autograd.grad(cvar_from_quantiles(q, 0.2), q)
        assert bool(torch.isfinite(gradient).all())


def test_atoms_are_differentiable_in_masses_and_places() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    atoms = torch.randn(6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, z: cvar_from_atoms(torch.softmax(x, -1), z, 0.3), (logits, atoms))


def test_less_than_one_observation_in_the_tail_warns_and_is_defined() -> None:
    with pytest.warns(SurefootWarning, match="alpha=0.05 of 10 quantiles"):
        tail = cvar_from_quantiles(TEN, 0.05)
    with pytest.warns(SurefootWarning, match="at least 20"):
        step = cvar_from_quantiles(TEN, 0.05, rule="step")
    with pytest.warns(SurefootWarning, match="samples"):
        samples = cvar_from_samples(TEN, 0.05)
    assert float(step) == float(samples) == 1.0
    assert float(tail) < 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cvar_from_quantiles(TEN, 0.1)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.01, math.nan])
def test_alpha_outside_its_range_is_refused_by_name(alpha: float) -> None:
    for function in (cvar_from_quantiles, var_from_quantiles, cvar_from_samples, var_from_samples):
        with pytest.raises(ValueError, match="alpha"):
            function(TEN, alpha)
    with pytest.raises(ValueError, match="alpha"):
        cvar_from_atoms(TEN, TEN, alpha)


def test_an_unknown_rule_is_refused() -> None:
    for function in (cvar_from_quantiles, var_from_quantiles):
        with pytest.raises(ValueError, match="'tail' or 'step'"):
            function(TEN, 0.5, cast(Rule, "linear"))


def test_mean_cvar_mixes_by_weight() -> None:
    mean, cvar = torch.tensor([1.0]), torch.tensor([-3.0])
    assert mean_cvar(mean, cvar, 0.25).tolist() == [0.0]
    assert mean_cvar(mean, cvar, 0.0).tolist() == [1.0]
    with pytest.raises(ValueError, match="cvar_weight"):
        mean_cvar(mean, cvar, 1.5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("alpha", [0.05, 0.25])
def test_the_cvar_of_a_mixture_is_that_of_pooled_samples(alpha: float) -> None:
    """N(−1, 1) and N(2, ¼), equally likely; the mean of their CVaRs is far above (R05)."""
    rng = torch.Generator().manual_seed(0)
    noise = torch.randn(2, 500_000, generator=rng, dtype=torch.float64)
    pooled = torch.cat([noise[0] - 1.0, 0.5 * noise[1] + 2.0])
    normal = torch.special.ndtri(midpoints(64).double())
    quantiles = torch.stack([normal - 1.0, 0.5 * normal + 2.0])
    found = float(mixture_cvar_from_quantiles(quantiles, alpha))
    assert found == pytest.approx(float(cvar_from_samples(pooled, alpha)), rel=0.01)
    assert found < float(cvar_from_quantiles(quantiles, alpha).mean()) - 0.5


@pytest.mark.filterwarnings("ignore")
def test_the_mixture_of_one_is_itself() -> None:
    q = torch.linspace(-3.0, 4.0, 40, dtype=torch.float64)
    found = mixture_cvar_from_quantiles(q[None], 0.2)
    assert float(found) == pytest.approx(float(cvar_from_quantiles(q, 0.2)), rel=2e-3)
