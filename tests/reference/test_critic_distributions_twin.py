from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import categorical as slow_categorical
from reference import quantile as slow_quantile
from reference.layouts import QUICK, distribution, generator, normal, seeds
from surefoot.math.categorical import out_of_support, project, two_hot
from surefoot.math.quantile import huber_loss


@QUICK
@given(seeds, st.integers(1, 9), st.integers(1, 4), st.sampled_from([0.0, 0.05, 1.0, 10.0]))
def test_huber_loss_equals_its_twin(seed: int, n: int, m: int, kappa: float) -> None:
    rng = generator(seed)
    quantiles, targets = normal(rng, 4, n, dtype=torch.float64), normal(rng, 4, m, dtype=torch.float64)

    actual = huber_loss(quantiles, targets, kappa)

    expected = [
        slow_quantile.huber_loss(q, y, kappa) for q, y in zip(quantiles.tolist(), targets.tolist(), strict=True)
    ]
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(
        huber_loss(quantiles, targets[:, 0], kappa), huber_loss(quantiles, targets[:, :1], kappa)
    )


def _uneven_atoms(rng: torch.Generator, k: int) -> torch.Tensor:
    return torch.cumsum(0.1 + torch.rand(k, generator=rng, dtype=torch.float64), 0) - 2.0


@QUICK
@given(seeds, st.integers(2, 9), st.integers(1, 9), st.sampled_from([0.1, 1.0, 10.0]))
def test_projection_equals_its_twin(seed: int, k: int, m: int, scale: float) -> None:
    rng = generator(seed)
    atoms = _uneven_atoms(rng, k)
    probs, places = distribution(rng, 4, m, dtype=torch.float64), normal(rng, 4, m, scale=scale, dtype=torch.float64)
    places[0, 0], places[1, 0], places[2, 0] = atoms[0], atoms[-1], atoms[k // 2]

    actual = project(probs, places, atoms)

    for row in range(4):
        expected = slow_categorical.project(probs[row].tolist(), places[row].tolist(), atoms.tolist())
        torch.testing.assert_close(actual[row], torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(actual.sum(-1), torch.ones(4, dtype=torch.float64))


@QUICK
@given(seeds, st.integers(2, 60))
def test_two_hot_has_mass_one_and_the_exact_mean_inside(seed: int, k: int) -> None:
    rng = generator(seed)
    atoms = _uneven_atoms(rng, k).float()
    targets = normal(rng, 20, scale=3.0)
    targets[0], targets[1] = atoms[0], atoms[-1]

    law_of_target = two_hot(targets, atoms)

    torch.testing.assert_close(law_of_target.sum(-1), torch.ones(20))
    assert bool((law_of_target >= 0).all())
    assert bool(((law_of_target > 0).sum(-1) <= 2).all())
    inside = ~out_of_support(targets, atoms)
    mean = (law_of_target * atoms).sum(-1)
    torch.testing.assert_close(mean[inside], targets[inside], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mean, targets.clamp(float(atoms[0]), float(atoms[-1])), rtol=1e-5, atol=1e-5)
