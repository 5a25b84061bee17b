"""The compiled noise is torch's own: the same numbers from the same generator."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fast.test_compile import needs_compiler
from surefoot import PPO
from surefoot.fast import normals
from surefoot.fast.normals import fast_noise, fits
from surefoot.optim.upgd import UPGD, draw_noise
from surefoot.optim.vgs import VGS

SETTINGS: dict[str, Any] = {
    "n_envs": 2,
    "n_steps": 16,
    "batch_size": 16,
    "n_epochs": 2,
    "policy": {"hidden_sizes": (8,)},
}


@needs_compiler
@pytest.mark.parametrize("n", [16, 17, 31, 32, 47, 512, 528, 623, 624, 625, 1248, 9155])
def test_it_draws_what_torch_draws_and_leaves_the_generator_where_torch_does(n: int) -> None:
    """Also from the middle of the words that a generator holds at a time, where another kind of draw left it."""
    ours, theirs = (torch.Generator().manual_seed(n) for _ in range(2))
    scale = torch.linspace(0.5, 1.5, n)
    found, expected = torch.empty(n), torch.empty(n)
    for k in range(5):
        fast_noise(found, scale, ours)
        draw_noise(expected, scale, theirs)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=5e-6)
        assert torch.equal(ours.get_state(), theirs.get_state())
        for generator in (ours, theirs):
            torch.rand(k, generator=generator)


@needs_compiler
def test_ends_of_the_uniform_numbers_are_no_infinities() -> None:
    """A uniform number of 0 has the length 0; the smallest 1 - u is 2^-24, whose length is 5.77."""
    generator, out = torch.Generator().manual_seed(1), torch.empty(1 << 22)
    fast_noise(out, torch.ones_like(out), generator)
    assert out.isfinite().all()
    assert 4.5 < out.abs().max().item() < 5.78
    assert out.mean().item() == pytest.approx(0.0, abs=2e-3)
    assert out.std().item() == pytest.approx(1.0, abs=2e-3)


@needs_compiler
def test_it_knows_single_precision_of_some_length_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fits(torch.zeros(16))
    assert not fits(torch.zeros(15))
    assert not fits(torch.zeros(16, dtype=torch.float64))
    monkeypatch.setattr(normals, "STATE_BYTES", 16)
    assert not fits(torch.zeros(16))


@needs_compiler
def test_it_is_not_used_where_torch_draws_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normals, "draw_noise", lambda out, scale, generator: out.uniform_(generator=generator))
    normals._equals_torch.cache_clear()
    try:
        assert not fits(torch.zeros(16))
    finally:
        normals._equals_torch.cache_clear()


@needs_compiler
@pytest.mark.parametrize("more", [{}, {"vgs": {"alpha": 0.5}}], ids=["alone", "under vgs"])
def test_a_compiled_run_uses_it_and_another_does_not(more: dict[str, Any]) -> None:
    drawn = []
    for compiled in (True, False):
        agent = PPO("CartPole-v1", optimizer="upgd", compile=compiled, **SETTINGS, **more).learn(32)
        optimizer = agent.learner.optimizer
        inner = optimizer.inner if isinstance(optimizer, VGS) else optimizer
        assert isinstance(inner, UPGD)
        assert inner.draw is (fast_noise if compiled else draw_noise)
        drawn.append(inner.noise)
    torch.testing.assert_close(*drawn, rtol=1e-5, atol=1e-8)
