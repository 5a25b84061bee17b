"""Choices side by side equal choices one by one."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from torch import Tensor

from reference import categoricals as slow
from reference.layouts import QUICK, generator, normal, seeds
from surefoot.actions.categorical import Categoricals
from surefoot.math.segments import Segments

SIZES = [(3, 1, 5, 2), (4, 4), (1,), (7,)]


def layout(seed: int, sizes: tuple[int, ...], masked: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    source = generator(seed)
    rows = [3.0 * normal(source, 6, sum(sizes)).double() for _ in range(2)]
    mask = torch.rand(6, sum(sizes), generator=source) < 0.6
    mask[:, Segments.of(sizes).first] = True
    return rows[0], rows[1], mask if masked else None


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@QUICK
@given(seed=seeds)
def test_every_choice_is_normalized_by_itself(seed: int, sizes: tuple[int, ...], masked: bool) -> None:
    logits, others, mask = layout(seed, sizes, masked)
    segments = Segments.of(sizes)
    old, new = (Categoricals(segments.pad(x), segments.pad_mask(mask)) for x in (logits, others))
    entropy, divergence, mode = old.entropy(), old.kl(new), old.draw(None)
    log_prob = old.log_prob(mode)
    legal = torch.ones_like(logits, dtype=torch.bool) if mask is None else mask
    for row in range(len(logits)):
        start = 0
        for h, size in enumerate(sizes):
            where = slice(start, start + size)
            p, q = (slow.softmax(x[row, where].tolist(), legal[row, where].tolist()) for x in (logits, others))
            assert old.log_probs[row, h, :size].exp().tolist() == pytest.approx(p, rel=1e-12)
            assert float(entropy[row, h]) == pytest.approx(slow.entropy(p), rel=1e-9, abs=1e-12)
            assert float(divergence[row, h]) == pytest.approx(slow.kl(p, q), rel=1e-9, abs=1e-12)
            best = max(range(size), key=lambda j: p[j])
            assert int(mode[row, h]) == best
            assert float(log_prob[row, h]) == pytest.approx(math.log(p[best]), abs=1e-12)
            start += size
