from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import returns as slow
from reference.layouts import QUICK, flags, generator, normal, seeds
from surefoot.math.returns import gae

probabilities = st.sampled_from([0.0, 0.05, 0.3, 0.8, 1.0])


@QUICK
@given(
    seeds,
    st.integers(1, 12),
    st.integers(1, 4),
    st.tuples(probabilities, probabilities, probabilities),
    st.sampled_from([(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.9)]),
)
def test_gae_equals_the_explicit_sum(
    seed: int, n_steps: int, n_envs: int, shares: tuple[float, float, float], discounts: tuple[float, float]
) -> None:
    rng = generator(seed)
    shape = (n_steps, n_envs)
    rewards, values, successors = (normal(rng, *shape, dtype=torch.float64) for _ in range(3))
    terminated, truncated, invalid = (flags(rng, *shape, probability=share) for share in shares)
    expected = slow.gae(
        rewards.tolist(),
        values.tolist(),
        successors.tolist(),
        terminated.tolist(),
        truncated.tolist(),
        (~invalid).tolist(),
        discounts,
    )

    garbage = torch.full(shape, torch.nan, dtype=torch.float64)
    rewards, values, successors = (torch.where(invalid, garbage, x) for x in (rewards, values, successors))
    successors = torch.where(terminated, torch.inf, successors)
    actual = gae(rewards, values, successors, terminated, truncated, *discounts, valid=~invalid)

    for fast, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(fast, torch.tensor(reference, dtype=torch.float64), rtol=1e-12, atol=1e-12)


@QUICK
@given(seeds, st.integers(2, 10), st.integers(1, 3))
def test_nothing_after_an_episode_changes_its_advantages(seed: int, n_steps: int, n_envs: int) -> None:
    rng = generator(seed)
    shape = (n_steps, n_envs)
    rewards, values, successors = (normal(rng, *shape) for _ in range(3))
    terminated = flags(rng, *shape, probability=0.2)
    truncated = flags(rng, *shape, probability=0.2)
    last = n_steps // 2
    truncated[last - 1] = True
    before, _ = gae(rewards, values, successors, terminated, truncated, 0.99, 0.95)

    for x in (rewards, values, successors):
        x[last:] = torch.where(flags(rng, n_steps - last, n_envs, probability=0.5), torch.nan, 1e9)
    after, _ = gae(rewards, values, successors, terminated, truncated, 0.99, 0.95)

    assert torch.equal(before[:last], after[:last])
