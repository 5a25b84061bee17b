"""Gaussian actions in units of the box (P14): densities of env actions, and policies from before there were units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import distributions as td

from surefoot.actions.distribution import Family
from surefoot.actions.registry import family_for

LOW = np.array([100.0, -np.inf, 0.0, 0.0, -1e30])
HIGH = np.array([200.0, np.inf, 1e-3, np.inf, 1e30])
MIXED = spaces.Box(LOW, HIGH, dtype=np.float64)
"""Only the first and the third dimension have bounds that give a unit."""
IN_ENV_UNITS = spaces.Box(-np.inf, np.inf, (5,), np.float64)
"""Without bounds, actions are what they were before there were units."""


def parameters(family: Family, n: int) -> torch.Tensor:
    width = family.n_parameters
    return 0.3 * torch.randn(n, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_density_is_that_of_the_env_action() -> None:
    family, n = family_for(MIXED), 50
    params = parameters(family, n)
    dist = family.bind(params)
    stored = dist.sample(torch.Generator().manual_seed(1))
    stored[:, 3] = stored[:, 3].abs()
    env_action = torch.from_numpy(family.to_env(stored.numpy()))
    inside = stored[:, [0, 2]].abs().amax(1) < 1  # clipped actions are atoms, which have no density
    assert int(inside.sum()) > 10
    centre, unit = torch.tensor([150.0, 0, 5e-4, 0, 0]), torch.tensor([50.0, 1, 5e-4, 1, 1])
    mean, log_std = params.chunk(2, -1)
    twin: td.Distribution = td.Independent(td.Normal(centre + unit * mean, unit * log_std.exp()), 1)
    torch.testing.assert_close(dist.log_prob(stored)[inside], twin.log_prob(env_action)[inside], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(dist.entropy(), twin.entropy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "state-dependent"])
def test_what_the_env_receives_is_the_mode_within_the_bounds_and_the_std_as_it_was(kind: str) -> None:
    family = family_for(MIXED, state_dependent_std=kind == "state-dependent")
    params = 10.0 * parameters(family, 50)
    received = family.received(params)
    before, after = family.bind(params), family.bind(received)
    assert family.is_clipped(before.mode()).any()  # type: ignore[union-attr] # a Gaussian on a Box may be clipped
    assert not family.is_clipped(after.mode()).any()  # type: ignore[union-attr]
    np.testing.assert_array_equal(family.to_env(before.mode().numpy()), family.to_env(after.mode().numpy()))
    torch.testing.assert_close(received[:, 5:], params[:, 5:], rtol=0, atol=0)


def test_the_density_integrates_to_the_share_of_actions_in_the_box() -> None:
    family = family_for(spaces.Box(100.0, 200.0, (1,), np.float64))
    params = torch.tensor([[0.4, -1.0]], dtype=torch.float64)
    edges = np.linspace(-1.0, 1.0, 20_001)[:, None]
    lengths = np.diff(family.to_env(edges)[:, 0])
    middles = torch.from_numpy(0.5 * (edges[1:] + edges[:-1]))
    density = family.bind(params.expand(len(middles), -1)).log_prob(middles).exp().numpy()
    sample = family.bind(params.expand(100_000, -1)).sample(torch.Generator().manual_seed(0))
    assert float(density @ lengths) == pytest.approx(float((sample.abs() < 1).double().mean()), abs=0.005)


@pytest.mark.parametrize("space", [MIXED, spaces.Dict({"n": spaces.Discrete(3), "x": MIXED, "y": spaces.Box(3, 5)})])
@pytest.mark.parametrize("kind", ["gaussian", "state-dependent"])
def test_a_policy_in_env_units_acts_alike_in_units_of_the_box(space: spaces.Space[Any], kind: str) -> None:
    options: dict[str, Any] = {"state_dependent_std": kind == "state-dependent", "log_std_init": 0.2}
    family = family_for(space, **options)
    unbounded: Any = IN_ENV_UNITS
    if isinstance(space, spaces.Dict):
        unbounded = spaces.Dict({"n": spaces.Discrete(3), "x": IN_ENV_UNITS, "y": spaces.Box(-np.inf, np.inf)})
    before, n = family_for(unbounded, **options), 200
    old = parameters(before, n)
    units, outputs = family.output_units(), family.n_outputs
    assert units.scale.shape == units.shift.shape == (outputs,)
    new = torch.cat(
        [(old[:, :outputs] - units.shift) / units.scale, old[:, outputs:] - units.state_independent_shift], 1
    )
    was = before.to_env(before.bind(old).sample(torch.Generator().manual_seed(0)).numpy())
    now = family.to_env(family.bind(new).sample(torch.Generator().manual_seed(0)).numpy())
    if isinstance(space, spaces.Dict):
        assert (now["n"] == was["n"]).all()
        np.testing.assert_allclose(now["y"], was["y"].clip(3, 5), rtol=1e-6)
        was, now = was["x"], now["x"]
    np.testing.assert_allclose(now, was.clip(LOW, HIGH), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(family.bind(new).entropy(), before.bind(old).entropy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,)), spaces.Box(-np.inf, np.inf, (2,))])
def test_outputs_that_keep_their_meaning_are_not_changed(space: spaces.Space[Any]) -> None:
    scale, shift, rest = family_for(space).output_units()
    assert (scale == 1).all()
    assert (shift == 0).all()
    assert (rest == 0).all()
