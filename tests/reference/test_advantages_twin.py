from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import advantages as slow
from reference.layouts import QUICK, flags, generator, normal, seeds
from surefoot.math.advantages import normalize

scales = st.sampled_from([1e-30, 1e-6, 1.0, 1e6, 1e30])


@QUICK
@given(seeds, st.integers(1, 20), st.integers(1, 5), scales, st.sampled_from([0.0, 0.4, 0.9]))
def test_normalize_equals_its_twin_at_every_scale(
    seed: int, n_steps: int, n_envs: int, scale: float, invalid_share: float
) -> None:
    rng = generator(seed)
    advantages = normal(rng, n_steps, n_envs, scale=scale)
    valid = ~flags(rng, n_steps, n_envs, probability=invalid_share)
    expected = slow.normalize(advantages.flatten().tolist(), valid.flatten().tolist())

    actual = normalize(torch.where(valid, advantages, torch.nan), valid)

    torch.testing.assert_close(actual.flatten(), torch.tensor(expected), rtol=1e-4, atol=1e-5)


@QUICK
@given(seeds, st.integers(1, 12), st.integers(1, 5), st.sampled_from([0.0, 0.5]))
def test_normalize_by_env_equals_the_twin_of_each_column(
    seed: int, n_steps: int, n_envs: int, invalid_share: float
) -> None:
    rng = generator(seed)
    advantages = normal(rng, n_steps, n_envs) * torch.logspace(-3, 5, n_envs)
    valid = ~flags(rng, n_steps, n_envs, probability=invalid_share)

    actual = normalize(torch.where(valid, advantages, torch.nan), valid, by_env=True)

    for n in range(n_envs):
        expected = slow.normalize(advantages[:, n].tolist(), valid[:, n].tolist())
        torch.testing.assert_close(actual[:, n], torch.tensor(expected), rtol=1e-4, atol=1e-5)


@QUICK
@given(seeds, st.integers(2, 200), st.sampled_from([1e-20, 0.1, 1.0, 1e6, -3e6, 1e30]), st.integers(0, 4))
def test_rounding_around_any_constant_is_never_amplified(seed: int, n: int, constant: float, steps: int) -> None:
    rng = generator(seed)
    base = torch.full((n,), constant)
    # Up to `steps` representable numbers away from the constant, either way.
    noisy = base.clone()
    for _ in range(steps):
        target = torch.where(flags(rng, n, probability=0.5), torch.inf, -torch.inf)
        noisy = torch.nextafter(noisy, target)

    assert torch.equal(normalize(noisy), torch.zeros(n))
