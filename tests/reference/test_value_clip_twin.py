from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import value_clip as slow
from reference.layouts import QUICK, distribution, generator, normal, seeds
from surefoot.math.value_clip import SPREAD_FACTOR, ClipMode, clip_atoms, clip_quantiles, clipped_value_loss

ranges = st.sampled_from([0.0, 0.1, 0.7, 5.0])
moment_modes: st.SearchStrategy[ClipMode] = st.sampled_from(["mean_only", "mean_and_variance"])


@QUICK
@given(seeds, ranges)
def test_value_loss_equals_its_twin(seed: int, clip_range: float) -> None:
    rng = generator(seed)
    values, old, targets = (normal(rng, 16, dtype=torch.float64) for _ in range(3))

    actual = clipped_value_loss(values, old, targets, clip_range)

    for i, (v, o, y) in enumerate(zip(values.tolist(), old.tolist(), targets.tolist(), strict=True)):
        unclipped, clipped = (v - y) ** 2, (slow.clip(v, o, clip_range) - y) ** 2
        assert float(actual.unclipped[i]) == pytest.approx(unclipped)
        assert float(actual.clipped[i]) == pytest.approx(clipped)
        assert float(actual.loss[i]) == pytest.approx(max(unclipped, clipped))
        assert bool(actual.active[i]) == (clipped > unclipped)


@QUICK
@given(seeds, st.integers(1, 9), ranges, moment_modes)
def test_clipped_quantiles_equal_their_twin(seed: int, n: int, clip_range: float, mode: ClipMode) -> None:
    rng = generator(seed)
    quantiles = normal(rng, 5, n, scale=2.0, dtype=torch.float64)
    old = normal(rng, 5, n, dtype=torch.float64)

    actual = clip_quantiles(quantiles, old, clip_range, mode)

    equal = [1.0 / n] * n
    cap = SPREAD_FACTOR if mode == "mean_and_variance" else None
    for row in range(5):
        old_moments = slow.moments(old[row].tolist(), equal)
        expected = slow.clip_law(quantiles[row].tolist(), equal, old_moments, clip_range, cap)
        torch.testing.assert_close(actual[row], torch.tensor(expected, dtype=torch.float64))


@QUICK
@given(seeds, st.integers(2, 9), ranges, moment_modes)
def test_clipped_atoms_equal_their_twin(seed: int, n: int, clip_range: float, mode: ClipMode) -> None:
    rng = generator(seed)
    atoms = torch.linspace(-3.0, 3.0, n, dtype=torch.float64)
    probs, old = distribution(rng, 5, n, dtype=torch.float64), distribution(rng, 5, n, dtype=torch.float64)

    actual = clip_atoms(probs, old, atoms, clip_range, mode)

    cap = SPREAD_FACTOR if mode == "mean_and_variance" else None
    for row in range(5):
        old_moments = slow.moments(atoms.tolist(), old[row].tolist())
        expected = slow.clip_law(atoms.tolist(), probs[row].tolist(), old_moments, clip_range, cap)
        torch.testing.assert_close(actual[row], torch.tensor(expected, dtype=torch.float64))


@QUICK
@given(seeds, st.integers(2, 9), ranges)
def test_atoms_clipped_per_quantile_stay_near_the_old_quantiles(seed: int, n: int, clip_range: float) -> None:
    rng = generator(seed)
    atoms = torch.linspace(-3.0, 3.0, n, dtype=torch.float64)
    probs, old = distribution(rng, 5, n, dtype=torch.float64), distribution(rng, 5, n, dtype=torch.float64)

    actual = clip_atoms(probs, old, atoms, clip_range, "per_quantile")

    for row in range(5):
        below = 0.0
        for k, p in enumerate(probs[row].tolist()):
            old_quantile = slow.quantile_of(old[row].tolist(), atoms.tolist(), below + 0.5 * p)
            expected = slow.clip(float(atoms[k]), old_quantile, clip_range)
            assert float(actual[row, k]) == pytest.approx(expected)
            below += p
