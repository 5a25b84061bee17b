"""Heads sampled in numpy, against the joint distribution by enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from actions.test_factored import B, Case, brute_force, every_case, every_form, flat_row, logits, masks_of
from fast.test_compile import needs_compiler
from fast.test_host_sampling import sampler_of
from surefoot.actions.factored import FactoredFamily
from surefoot.actions.heads import HeadSpec
from surefoot.actions.registry import family_for
from surefoot.fast.host_sampling import ChoiceSampler
from surefoot.fast.kernel import load_kernel


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


@needs_compiler
@every_case
@every_form
def test_the_kernel_draws_what_numpy_draws(case: Case, form: str) -> None:
    """From the same noise, row by row of a rollout's storage; it knows no masks that depend on parent actions."""
    family, n_steps = case.family(), 50
    sampler = sampler_of(family)
    assert isinstance(sampler, ChoiceSampler)
    assert isinstance(family, FactoredFamily)
    params = torch.stack([logits(seed, case).float() for seed in range(n_steps)]).numpy()
    row = flat_row(case, masks_of(case, form))
    mask = None if row is None else np.ascontiguousarray(np.broadcast_to(row.numpy(), (n_steps, *row.shape)))
    noise = sampler.noise(n_steps, B, torch.Generator().manual_seed(0))
    action = np.full((n_steps, B, *family.action_shape), -1)
    drawing = sampler.compiled(load_kernel(), params, mask, noise, action)
    if family.is_conditional(mask):
        assert drawing is None
        return
    assert drawing is not None
    for t in range(n_steps):
        drawing(t)
        expected = sampler.sample(params[t], None if mask is None else mask[t], noise[t])
        assert np.array_equal(action[t], expected)


@needs_compiler
@pytest.mark.parametrize(("legal", "can"), [([True, False], True), ([False, False], False)])
def test_the_kernel_says_whether_every_head_had_a_choice(legal: list[bool], can: bool) -> None:
    family = family_for(spaces.Discrete(2))
    sampler = sampler_of(family)
    assert isinstance(sampler, ChoiceSampler)
    noise, action = sampler.noise(1, 2, None), np.full((1, 2, 1), -1)
    mask = np.array([[[True, True], legal]])
    drawing = sampler.compiled(load_kernel(), np.zeros((1, 2, 2), np.float32), mask, noise, action)
    assert drawing is not None
    assert drawing(0) is can


def test_equal_scores_make_no_third_choice() -> None:
    """Both entries of each head win: the first is taken, not their sum."""
    family = family_for(spaces.MultiDiscrete([3, 2]), heads=(HeadSpec("a", 3), HeadSpec("b", 2)))
    assert isinstance(family, FactoredFamily)
    noise = sampler_of(family).noise(1, 4, None)
    choice = sampler_of(family).sample(np.zeros((4, 5), np.float32), None, np.zeros_like(noise[0]))
    assert choice.tolist() == [[0, 0]] * 4
