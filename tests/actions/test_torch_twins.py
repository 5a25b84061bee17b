"""torch.distributions as the slow, obvious twin of every family."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch import distributions as td
from torch.nn.functional import softplus

from surefoot.actions.distribution import Distribution
from surefoot.actions.registry import family_for

B, D = 64, 3
LOW, HIGH = -2.0, 5.0
BOX = spaces.Box(LOW, HIGH, (D,), np.float64)
SIZES = [2, 5, 3]


def categorical(params: Tensor) -> list[td.Distribution]:
    return [td.Categorical(logits=params)]


def multi_discrete(params: Tensor) -> list[td.Distribution]:
    edges = np.cumsum([0, *SIZES]).tolist()
    return [td.Categorical(logits=params[:, low:high]) for low, high in itertools.pairwise(edges)]


def bernoulli(params: Tensor) -> list[td.Distribution]:
    return [td.Independent(td.Bernoulli(logits=params), 1)]


def gaussian(params: Tensor) -> list[td.Distribution]:
    mean, std = (LOW + HIGH) / 2 + (HIGH - LOW) / 2 * params[:, :D], (HIGH - LOW) / 2 * params[:, D:].exp()
    return [td.Independent(td.Normal(mean, std), 1)]


def tanh_gaussian(params: Tensor) -> list[td.Distribution]:
    squash = [td.TanhTransform(cache_size=1), td.AffineTransform((LOW + HIGH) / 2, (HIGH - LOW) / 2)]
    return [td.Independent(td.TransformedDistribution(td.Normal(params[:, :D], params[:, D:].exp()), squash), 1)]


def beta(params: Tensor) -> list[td.Distribution]:
    alpha, beta = (1 + softplus(params)).chunk(2, dim=-1)
    to_box = td.AffineTransform(LOW, HIGH - LOW)
    return [td.Independent(td.TransformedDistribution(td.Beta(alpha, beta), to_box), 1)]


TWINS: dict[str, tuple[spaces.Space[Any], Any, Callable[[Tensor], list[td.Distribution]]]] = {
    "categorical": (spaces.Discrete(6), "auto", categorical),
    "multi_discrete": (spaces.MultiDiscrete(SIZES), "auto", multi_discrete),
    "bernoulli": (spaces.MultiBinary(D), "auto", bernoulli),
    "gaussian": (BOX, "gaussian", gaussian),
    "tanh_gaussian": (BOX, "tanh_gaussian", tanh_gaussian),
    "beta": (BOX, "beta", beta),
}
every_twin = pytest.mark.parametrize("name", TWINS)


def bound(name: str, seed: int) -> tuple[Distribution, list[td.Distribution]]:
    space, kind, twin = TWINS[name]
    family = family_for(space, kind)
    width = family.n_parameters
    params = torch.randn(B, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    params *= 0.5  # so that the twin's tanh does not saturate
    return family.bind(params), twin(params)


def twin_action(name: str, stored: Tensor) -> list[Tensor]:
    """The stored action in the twin's terms: the env's units, one entry per sub-distribution."""
    if name in ("categorical", "multi_discrete"):
        return list(stored.unbind(-1))
    if name == "bernoulli":
        return [stored.double()]
    if name == "gaussian":
        return [(LOW + HIGH) / 2 + (HIGH - LOW) / 2 * stored]
    if name == "tanh_gaussian":
        return [(LOW + HIGH) / 2 + (HIGH - LOW) / 2 * stored.tanh()]
    if name == "beta":
        return [LOW + (HIGH - LOW) * stored]
    return [stored]


@every_twin
def test_log_prob_equals_the_twin(name: str) -> None:
    dist, twins = bound(name, 0)
    stored = dist.sample(torch.Generator().manual_seed(0))
    expected = torch.stack(
        [twin.log_prob(action) for twin, action in zip(twins, twin_action(name, stored), strict=True)]
    )
    torch.testing.assert_close(dist.log_prob(stored), expected.sum(0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in TWINS if name not in ("tanh_gaussian", "beta")])
def test_entropy_equals_the_twin(name: str) -> None:
    dist, twins = bound(name, 0)
    expected = torch.stack([twin.entropy() for twin in twins])
    torch.testing.assert_close(dist.entropy(), expected.sum(0))


def test_beta_entropy_is_the_unit_one_plus_the_log_volume() -> None:
    dist, _ = bound("beta", 0)
    params = 0.5 * torch.randn(B, 2 * D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    alpha, beta = (1 + softplus(params)).chunk(2, dim=-1)
    unit = td.Beta(alpha, beta).entropy().sum(-1)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    torch.testing.assert_close(dist.entropy(), unit + D * math.log(HIGH - LOW))


@every_twin
def test_kl_equals_the_twin(name: str) -> None:
    (old, old_twins), (new, new_twins) = bound(name, 0), bound(name, 1)
    expected = torch.stack(
        [td.kl_divergence(base(p), base(q)) for p, q in zip(old_twins, new_twins, strict=True)]
    ).reshape(len(old_twins), B, -1)
    torch.testing.assert_close(old.kl(new), expected.sum((0, 2)))


def base(twin: td.Distribution) -> td.Distribution:
    """Without wrappers, whose KL torch does not know: one map of both sides changes no divergence."""
    while isinstance(twin, td.Independent | td.TransformedDistribution):
        twin = twin.base_dist
    return twin
