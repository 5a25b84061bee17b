"""UPGD and AdaUPGD on one vector equal a slow twin of the published formula (O07)."""

from __future__ import annotations

import math

import pytest
import torch

from reference.upgd import SlowUPGD
from surefoot.optim.upgd import UPGD, UPGDSettings

P, STEPS = 23, 100
YES = torch.tensor(True)


def built(settings: UPGDSettings, values: torch.Tensor, seed: int = 3) -> UPGD:
    ones = torch.ones_like(values)
    return UPGD(values, settings, ones, ones, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("betas", [None, (0.9, 0.999), (0.5, 0.9)], ids=["upgd", "adaupgd", "quick moments"])
@pytest.mark.parametrize("beta_utility", [0.999, 0.9, 0.0])
@pytest.mark.parametrize("eagerly", [True, False], ids=["step_", "step"])
def test_a_hundred_steps_equal_the_published_formula(
    betas: tuple[float, float] | None, beta_utility: float, eagerly: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(P, generator=generator, dtype=torch.float64)
    slow = SlowUPGD(values.tolist(), beta_utility, 0.01, betas)
    optimizer = built(UPGDSettings(beta_utility, 0.05, 0.01, betas), values)
    for i in range(STEPS):
        gradient = torch.randn(P, generator=generator, dtype=torch.float64)
        optimizer.prepare()
        rate = 0.02 / (1 + i / 50)
        slow.step(gradient.tolist(), optimizer.noise.tolist(), rate)
        if eagerly:
            optimizer.step_(values, gradient, rate)
        else:
            optimizer.step(values, gradient, rate, YES)
    assert values.tolist() == pytest.approx(slow.weights, rel=1e-6, abs=1e-6)


def test_a_weight_without_utility_takes_the_whole_step_and_the_most_useful_about_half() -> None:
    """2·(1 − sigmoid(0)) = 1; with β = 0 the largest utility is its own maximum: 2·(1 − sigmoid(1)) = 0.5379."""
    values = torch.tensor([0.0, -2.0, 2.0])
    built(UPGDSettings(0.0, 0.0), values).step_(values, torch.tensor([1.0, 1.0, 1.0]), 0.1)
    kept = [2 / (1 + math.exp(x)) for x in (0.0, 1.0, -1.0)]
    assert values.tolist() == pytest.approx([-0.1 * kept[0], -2.0 - 0.1 * kept[1], 2.0 - 0.1 * kept[2]])
    assert kept[0] == 1.0
    assert kept[1] == pytest.approx(0.5379, abs=1e-4)


@pytest.mark.parametrize("eagerly", [True, False])
def test_without_any_utility_above_0_every_weight_takes_the_whole_step(eagerly: bool) -> None:
    """The published formula divides by 0 here, as with a policy all of whose weights are 0."""
    values = torch.tensor([0.0, 1.0])
    optimizer = built(UPGDSettings(0.9, 0.0), values)
    gradient = torch.tensor([1.0, 2.0])
    if eagerly:
        optimizer.step_(values, gradient, 0.1)
    else:
        optimizer.step(values, gradient, 0.1, YES)
    assert values.tolist() == pytest.approx([-0.1, 0.8])


@pytest.mark.parametrize("eagerly", [True, False])
def test_a_largest_utility_of_almost_nothing_leaves_numbers(eagerly: bool) -> None:
    """1/(its correction · 1e-41) is past float32, and a weight of utility 0 must not be multiplied by it."""
    values = torch.tensor([0.0, 1e-19])
    optimizer = built(UPGDSettings(0.999, 0.0), values)
    gradient = torch.tensor([1.0, -1e-19])
    if eagerly:
        optimizer.step_(values, gradient, 0.1)
    else:
        optimizer.step(values, gradient, 0.1, YES)
    assert values.tolist() == pytest.approx([-0.1, 1e-19])


def test_the_noise_has_its_size_and_comes_from_its_own_generator() -> None:
    values = torch.zeros(20_000)
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    optimizer = built(UPGDSettings(0.9, 0.03), values)
    optimizer.prepare()
    first = optimizer.noise.clone()
    optimizer.prepare()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first.std().item() == pytest.approx(0.03, rel=0.03)
    assert abs(first.mean().item()) < 0.001
    assert abs((first * optimizer.noise).mean().item()) < 3e-5
