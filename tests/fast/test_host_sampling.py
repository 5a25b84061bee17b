"""Acting in numpy, the quick way for a few rows, against the distributions themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from surefoot.actions.categorical import log_exponential
from surefoot.actions.diagonal_gaussian import DiagonalGaussianFamily
from surefoot.actions.distribution import Family
from surefoot.actions.heads import HeadSpec
from surefoot.actions.registry import family_for
from surefoot.fast.host_sampling import HostSampler, host_sampler

N = 20_000
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
FAMILIES: dict[str, Family] = {
    "categorical": family_for(spaces.Discrete(4)),
    "gaussian": DiagonalGaussianFamily(BOX, log_std_init=-0.5),
    "gaussian, std of the network": DiagonalGaussianFamily(BOX, log_std_init=-0.5, state_dependent_std=True),
    "multi-discrete": family_for(spaces.MultiDiscrete([2, 3])),
    "heads": family_for(spaces.MultiDiscrete([2, 3]), heads=(HeadSpec("a", 2), HeadSpec("b", 3))),
}
acting = {name: family for name, family in FAMILIES.items() if host_sampler(family) is not None}


def sampler_of(family: Family) -> HostSampler:
    found = host_sampler(family)
    assert found is not None
    return found


def parameters(family: Family, n: int) -> torch.Tensor:
    width = family.n_parameters
    return torch.randn(1, width, generator=torch.Generator().manual_seed(1)).repeat(n, 1)


@pytest.mark.parametrize("legal", [None, [True, False, True, True]])
def test_choices_come_as_often_as_their_distribution_says(legal: list[bool] | None) -> None:
    family = FAMILIES["categorical"]
    params = parameters(family, N)
    mask = None if legal is None else np.tile(np.array(legal), (N, 1))
    noise = sampler_of(family).noise(1, N, torch.Generator().manual_seed(0))
    action = sampler_of(family).sample(params.numpy(), mask, noise[0])
    bound = family.bind(params[:1], None if mask is None else torch.from_numpy(mask[:1]))
    for choice in range(4):
        p = float(bound.log_prob(torch.tensor([[choice]])).exp())
        assert abs((action == choice).mean() - p) <= 5 * math.sqrt(p * (1 - p) / N)


def test_a_shift_of_all_logits_changes_no_choice() -> None:
    family = FAMILIES["categorical"]
    params = parameters(family, N).numpy()
    noise = sampler_of(family).noise(1, N, torch.Generator().manual_seed(0))
    plain, shifted = (sampler_of(family).sample(params + shift, None, noise[0]) for shift in (0.0, 2.0**16))
    assert (plain == shifted).mean() > 0.995  # a few are decided by the digits that the logits themselves lose


def test_noise_of_choices_is_exponential() -> None:
    n = 200_000
    noise = log_exponential((n,), torch.Generator().manual_seed(0), torch.device("cpu")).double().exp()
    for k in range(1, 4):  # E[x^k] = k!, Var[x^k] = (2k)! − k!²
        mean, variance = math.factorial(k), math.factorial(2 * k) - math.factorial(k) ** 2
        assert abs(float((noise**k).mean()) - mean) <= 5 * math.sqrt(variance / n)
    small = float((noise < 1e-3).double().mean())
    assert abs(small - 1e-3) <= 5 * math.sqrt(1e-3 / n)


@pytest.mark.parametrize("uniform", [0.0, 2.0**-53, 1 - 2.0**-53])
def test_noise_of_choices_is_finite_and_never_0(uniform: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "uniform_", lambda self, generator: self.fill_(uniform))
    assert -40.0 < float(log_exponential((1,), None, torch.device("cpu"))) <= 4.0


def test_gaussians_have_the_moments_of_their_distribution() -> None:
    family = FAMILIES["gaussian"]
    params = torch.tensor([[0.3, -2.0, -1.0, 0.5]]).repeat(N, 1)
    noise = sampler_of(family).noise(1, N, torch.Generator().manual_seed(0))
    action = sampler_of(family).sample(params.numpy(), None, noise[0])
    std = np.exp([-1.0, 0.5])
    assert np.all(np.abs(action.mean(0) - [0.3, -2.0]) <= 5 * std / math.sqrt(N))
    assert np.all(np.abs(action.std(0) / std - 1.0) <= 5 / math.sqrt(2 * N))


def test_an_extreme_spread_stays_finite() -> None:
    family = FAMILIES["gaussian"]
    params = np.array([[0.0, 0.0, -500.0, 500.0]], np.float32)
    action = sampler_of(family).sample(params, None, np.ones((1, 2), np.float32))
    assert np.isfinite(action).all()
    assert torch.isfinite(family.bind(torch.from_numpy(params)).log_prob(torch.from_numpy(action))).all()


@pytest.mark.parametrize("name", acting)
def test_the_noise_depends_on_the_generator_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = (
        sampler_of(FAMILIES[name]).noise(2, 3, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert torch.equal(before, torch.get_rng_state())
