from __future__ import annotations

import math

import pytest
import torch

from surefoot.math.categorical import out_of_support, project, two_hot

ATOMS = torch.tensor([-1.0, 0.0, 1.0, 3.0])


def test_two_hot_by_hand() -> None:
    targets = torch.tensor([-1.0, -0.25, 0.0, 2.5, 3.0, 99.0, -99.0])
    expected = [
        [1.0, 0.0, 0.0, 0.0],
        [0.25, 0.75, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.25, 0.75],
        [0.0, 0.0, 0.0, 1.0],
        [0.0, 0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0, 0.0],
    ]
    assert two_hot(targets, ATOMS).tolist() == expected


def test_out_of_support_excludes_the_ends() -> None:
    targets = torch.tensor([-1.0, -1.001, 3.0, 3.001, torch.nan])
    assert out_of_support(targets, ATOMS).tolist() == [False, True, False, True, True]


def test_a_bad_target_is_not_hidden() -> None:
    assert math.isnan(float(two_hot(torch.tensor([torch.nan]), ATOMS).sum()))


def test_projection_by_hand() -> None:
    probs = torch.tensor([[0.5, 0.5]])
    places = torch.tensor([[0.5, 4.0]])
    assert project(probs, places, ATOMS).tolist() == [[0.0, 0.25, 0.25, 0.5]]


def test_atoms_that_did_not_move_give_the_same_law() -> None:
    probs = torch.softmax(torch.arange(8.0).view(2, 4), -1)
    torch.testing.assert_close(project(probs, ATOMS.expand(2, 4), ATOMS), probs)


def test_projection_keeps_mass_and_mean_on_a_fine_grid() -> None:
    torch.manual_seed(0)
    atoms = torch.linspace(-10.0, 10.0, 101)
    probs = torch.softmax(torch.randn(16, 101), -1)
    moved = 0.9 * atoms + 0.2 * torch.randn(16, 1)
    result = project(probs, moved, atoms)
    torch.testing.assert_close(result.sum(-1), torch.ones(16))
    torch.testing.assert_close((result * atoms).sum(-1), (probs * moved).sum(-1), rtol=1e-4, atol=1e-4)


def test_projection_is_differentiable_in_masses_and_places() -> None:
    torch.manual_seed(0)
    probs = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    places = torch.tensor([[-0.3, 0.4, 2.2], [-5.0, 0.7, 9.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p, x: project(p, x, ATOMS.double()), (probs, places))


def test_a_grid_of_one_atom_is_refused() -> None:
    with pytest.raises(ValueError, match="K >= 2"):
        two_hot(torch.zeros(3), torch.zeros(1))
