"""Heads sampled in numpy, against the joint distribution by enumeration."""

from __future__ import annotations

import math

import numpy as np
import torch
from gymnasium import spaces

from actions.test_factored import B, Case, brute_force, every_case, every_form, flat_row, logits, masks_of
from fast.test_host_sampling import sampler_of
from surefoot.actions.factored import FactoredFamily
from surefoot.actions.heads import HeadSpec
from surefoot.actions.registry import family_for


@every_case
@every_form
def test_acting_draws_from_the_same_distribution(case: Case, form: str) -> None:
    """The quick way for a few rows against the obvious one: how often each joint choice comes."""
    n = 20_000
    params, masks = logits(0, case)[:1].float(), masks_of(case, form)
    row = flat_row(case, masks)
    mask = None if row is None else row[:1].expand(n, -1)
    family, many = case.family(), params.expand(n, -1)
    noise = sampler_of(family).noise(1, n, torch.Generator().manual_seed(0))
    action = sampler_of(family).sample(many.numpy(), None if mask is None else mask.numpy(), noise[0])
    distribution = brute_force(case, params.double().expand(B, -1), masks)
    drawn, counts = np.unique(action, axis=0, return_counts=True)
    seen = dict.fromkeys(distribution, 0) | {
        tuple(int(c) for c in choice): int(count) for choice, count in zip(drawn, counts, strict=True)
    }
    assert seen.keys() == distribution.keys()
    for choice, log_probs in distribution.items():
        p = math.exp(log_probs[0])
        assert abs(seen[choice] / n - p) <= 5 * math.sqrt(p * (1 - p) / n) + 1e-12


def test_equal_scores_make_no_third_choice() -> None:
    """Both entries of each head win: the first is taken, not their sum."""
    family = family_for(spaces.MultiDiscrete([3, 2]), heads=(HeadSpec("a", 3), HeadSpec("b", 2)))
    assert isinstance(family, FactoredFamily)
    noise = sampler_of(family).noise(1, 4, None)
    choice = sampler_of(family).sample(np.zeros((4, 5), np.float32), None, np.zeros_like(noise[0]))
    assert choice.tolist() == [[0, 0]] * 4
