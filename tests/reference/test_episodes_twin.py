from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reference import episodes as slow
from reference.layouts import QUICK, flags, generator, normal, seeds
from surefoot.math.episodes import OpenSums, broadcast_to_steps, sum_episodes

probabilities = st.sampled_from([0.0, 0.1, 0.4, 1.0])
sizes = st.tuples(st.integers(1, 12), st.integers(1, 4))


def layout(rng: torch.Generator, shape: tuple[int, int], ends: float, losses: float) -> tuple[Tensor, Tensor, Tensor]:
    """start, done, valid as a collector gives them: a step after an end, or after a row that is no step, is a first."""
    valid = ~flags(rng, *shape, probability=losses)
    done = flags(rng, *shape, probability=ends) & valid
    start = torch.ones(shape, dtype=torch.bool)
    start[1:] = (done | ~valid)[:-1]
    return start, done, valid


@QUICK
@given(seeds, sizes, probabilities, probabilities, st.sampled_from([1.0, 0.9, 0.0]))
def test_sums_equal_the_walk(seed: int, shape: tuple[int, int], ends: float, losses: float, gamma: float) -> None:
    rng = generator(seed)
    x = normal(rng, *shape, dtype=torch.float64)
    start, _, valid = layout(rng, shape, ends, losses)
    garbage = torch.where(valid, x, torch.nan)
    actual, _ = sum_episodes(garbage, start, valid, gamma, OpenSums.empty(shape[1]))
    expected = slow.sums(x.tolist(), start.tolist(), valid.tolist(), gamma)
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


@QUICK
@given(seeds, sizes, st.integers(0, 12), probabilities, st.sampled_from([1.0, 0.9]))
def test_a_cut_between_rollouts_changes_nothing(
    seed: int, shape: tuple[int, int], cut: int, ends: float, gamma: float
) -> None:
    rng = generator(seed)
    x = normal(rng, *shape, dtype=torch.float64)
    start, _, valid = layout(rng, shape, ends, 0.1)
    whole, open_after = sum_episodes(x, start, valid, gamma, OpenSums.empty(shape[1]))
    cut = min(cut, shape[0])
    parts, carried = [], OpenSums.empty(shape[1])
    for piece in (slice(0, cut), slice(cut, None)):
        if x[piece].shape[0]:
            part, carried = sum_episodes(x[piece], start[piece], valid[piece], gamma, carried)
            parts.append(part)
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(tuple(carried), tuple(open_after), rtol=1e-12, atol=1e-12)


@QUICK
@given(seeds, sizes, probabilities, probabilities)
def test_spreading_equals_the_walk(seed: int, shape: tuple[int, int], ends: float, losses: float) -> None:
    rng = generator(seed)
    values = normal(rng, *shape, dtype=torch.float64)
    start, done, valid = layout(rng, shape, ends, losses)
    actual, reached = broadcast_to_steps(values, start, done, valid)
    expected, known = slow.broadcast_to_steps(values.tolist(), start.tolist(), done.tolist(), valid.tolist())
    assert actual.tolist() == expected
    assert reached.tolist() == known
