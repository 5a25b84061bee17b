"""From stored actions to the env's own format, with answers worked by hand."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces

from surefoot.actions.registry import family_for


def test_discrete_actions_are_shifted_by_start() -> None:
    family = family_for(spaces.Discrete(3, start=-1))
    assert family.to_env(np.array([[0], [1], [2]])).tolist() == [-1, 0, 1]


def test_factored_actions_take_the_shape_and_start_of_the_space() -> None:
    space = spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[10, 20], [30, 40]]))
    assert family_for(space).to_env(np.array([[1, 2, 3, 4]])).tolist() == [[[11, 22], [33, 44]]]


def test_bits_take_the_shape_of_the_space() -> None:
    family = family_for(spaces.MultiBinary([2, 2]))
    assert family.to_env(np.array([[1, 0, 0, 1]])).tolist() == [[[1, 0], [0, 1]]]


def test_gaussian_actions_are_clipped_only_on_their_way_to_the_env() -> None:
    family = family_for(spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64))
    stored = torch.tensor([[-3.0, -3.0], [0.5, 7.0]])
    assert family.to_env(stored.numpy()).tolist() == [[-1.0, 0.0], [0.5, 7.0]]
    assert stored.tolist() == [[-3.0, -3.0], [0.5, 7.0]]


def test_gaussian_actions_are_half_widths_from_the_centre() -> None:
    """(100, 200) and (0, 1e-3) have units; no bound, one bound, no width and bounds of no use do not."""
    low, high = [100, 0, -np.inf, 0, 5, -1e8, 0], [200, 1e-3, np.inf, np.inf, 5, 1e8, 5e-324]
    family = family_for(spaces.Box(np.array(low), np.array(high), dtype=np.float64))
    found = family.to_env(np.array([[0.4] * 7, [-1.0] * 7, [30.0] * 7]))
    np.testing.assert_allclose(found[0], [170, 7e-4, 0.4, 0.4, 5, 0.4, 5e-324])
    np.testing.assert_allclose(found[1], [100, 0, -1, 0, 5, -1, 0], atol=1e-18)
    np.testing.assert_allclose(found[2], [200, 1e-3, 30, 30, 5, 30, 5e-324])


def test_tanh_actions_reach_the_bounds_and_the_centre() -> None:
    family = family_for(spaces.Box(-2.0, 6.0, (1,)), "tanh_gaussian")
    assert family.to_env(np.array([[-50.0], [0.0], [50.0]])).tolist() == [[-2.0], [2.0], [6.0]]


def test_beta_actions_are_fractions_of_the_width() -> None:
    family = family_for(spaces.Box(-2.0, 6.0, (1,), np.float64), "beta")
    np.testing.assert_allclose(family.to_env(np.array([[0.25], [0.5]])), [[0.0], [2.0]])
