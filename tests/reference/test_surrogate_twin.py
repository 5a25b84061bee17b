from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import surrogate as slow
from reference.layouts import QUICK, generator, normal, seeds
from surefoot.math.surrogate import Bound, clipped_surrogate, importance_ratio

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
