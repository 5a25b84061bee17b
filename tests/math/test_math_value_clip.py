from __future__ import annotations

from typing import cast

import pytest
import torch

from surefoot.math.categorical import project
from surefoot.math.value_clip import (
    ClipMode,
    clip_atoms,
    clip_quantiles,
    clip_values,
    clipped_value_loss,
)

MODES: list[ClipMode] = ["none", "mean_only", "mean_and_variance", "per_quantile"]


def test_values_move_at_most_the_range_and_are_untouched_inside() -> None:
    values, old = torch.tensor([0.1, 5.0, -5.0]), torch.tensor([0.3, 1.0, 1.0])
    assert clip_values(values, old, 0.5).tolist() == pytest.approx([0.1, 1.5, 0.5])
    assert float(clip_values(values, old, 0.5)[0]) == float(values[0])
    assert torch.equal(clip_values(values, old, torch.tensor(0.5)), clip_values(values, old, 0.5))


def test_loss_by_hand() -> None:
    values, old, targets = torch.tensor([2.0, 2.0, 1.1]), torch.ones(3), torch.tensor([3.0, 0.0, 3.0])
    # clipped: 1.5, 1.5, 1.1;  errors² unclipped 1, 4, 3.61;  clipped 2.25, 2.25, 3.61
    result = clipped_value_loss(values, old, targets, 0.5)
    torch.testing.assert_close(result.unclipped, torch.tensor([1.0, 4.0, 3.61]))
    torch.testing.assert_close(result.clipped, torch.tensor([2.25, 2.25, 3.61]))
    torch.testing.assert_close(result.loss, torch.tensor([2.25, 4.0, 3.61]))
    assert result.active.tolist() == [True, False, False]


def test_gradient_stops_where_the_clip_is_active_and_never_reaches_old_values() -> None:
    values = torch.tensor([2.0, 2.0, 1.1], requires_grad=True)
    old = torch.ones(3, requires_grad=True)
    loss = clipped_value_loss(values, old, torch.tensor([3.0, 0.0, 3.0]), 0.5).loss
    loss.sum().backward()  # type: ignore[no-untyped-call] # torch does not type it
    assert values.grad is not None
    torch.testing.assert_close(values.grad, torch.tensor([0.0, 4.0, -3.8]))
    assert old.grad is None


QUANTILES = torch.tensor([[1.0, 3.0, 8.0]])
OLD = torch.tensor([[-1.0, 0.0, 1.0]])


def test_quantile_modes_by_hand() -> None:
    # mean 4 against 0; range 1 -> shift −3
    assert clip_quantiles(QUANTILES, OLD, 1.0, "none").tolist() == [[1.0, 3.0, 8.0]]
    assert clip_quantiles(QUANTILES, OLD, 1.0, "mean_only").tolist() == [[-2.0, 0.0, 5.0]]
    assert clip_quantiles(QUANTILES, OLD, 1.0, "per_quantile").tolist() == [[0.0, 1.0, 2.0]]
    # sd² 26/3 against 2/3: sd ratio √13; cap 2 -> scale 2/√13 about the new mean 1
    scale = 2.0 / 13.0**0.5
    expected = torch.tensor([[1.0 - 3.0 * scale, 1.0 - scale, 1.0 + 4.0 * scale]])
    torch.testing.assert_close(clip_quantiles(QUANTILES, OLD, 1.0, "mean_and_variance"), expected)


def test_mean_only_keeps_the_shape_and_the_variance_mode_caps_it() -> None:
    torch.manual_seed(0)
    quantiles, old = 5.0 * torch.randn(50, 11), torch.randn(50, 11)
    shifted = clip_quantiles(quantiles, old, 0.3, "mean_only")
    torch.testing.assert_close(shifted.std(-1), quantiles.std(-1))
    assert bool(((shifted.mean(-1) - old.mean(-1)).abs() <= 0.3 + 1e-5).all())
    capped = clip_quantiles(quantiles, old, 0.3, "mean_and_variance")
    assert bool((capped.std(-1) <= 2.0 * old.std(-1) + 1e-5).all())
    assert bool(((capped.mean(-1) - old.mean(-1)).abs() <= 0.3 + 1e-5).all())


@pytest.mark.parametrize("mode", MODES)
def test_a_prediction_within_the_range_is_untouched(mode: ClipMode) -> None:
    torch.manual_seed(0)
    old = torch.randn(4, 7)
    quantiles = old + 0.01 * torch.randn(4, 7)
    assert torch.equal(clip_quantiles(quantiles, old, 0.5, mode), quantiles)
    probs = torch.softmax(torch.randn(4, 7), -1)
    atoms = torch.linspace(-1.0, 1.0, 7)
    assert torch.equal(clip_atoms(probs, probs.clone(), atoms, 0.1, mode), atoms.expand(4, 7))


@pytest.mark.parametrize("mode", MODES)
def test_degenerate_spreads_have_finite_values_and_gradients(mode: ClipMode) -> None:
    for new, old in ((QUANTILES, OLD * 0.0), (QUANTILES * 0.0 + 9.0, OLD), (OLD * 0.0, OLD * 0.0)):
        quantiles = new.clone().requires_grad_()
        clipped = clip_quantiles(quantiles, old, 0.1, mode)
        (gradient,) = torch.autograd.grad(clipped.square().sum(), quantiles)
        assert bool(torch.isfinite(clipped).all())
        assert bool(torch.isfinite(gradient).all())


def test_atoms_are_shifted_and_scaled_like_quantiles() -> None:
    atoms = torch.tensor([0.0, 1.0, 2.0, 3.0])
    probs, old = torch.tensor([[0.0, 0.0, 0.5, 0.5]]), torch.tensor([[0.5, 0.5, 0.0, 0.0]])
    # means 2.5 and 0.5; range 0.5 -> shift −1.5
    moved = clip_atoms(probs, old, atoms, 0.5, "mean_only")
    assert moved.tolist() == [[-1.5, -0.5, 0.5, 1.5]]
    projected = project(probs, moved, atoms)
    assert projected.tolist() == [[0.25, 0.5, 0.25, 0.0]]
    # per quantile: the middle levels ¼ and ¾ of atoms 2 and 3 are old atoms 0 and 1
    assert clip_atoms(probs, old, atoms, 0.5, "per_quantile")[0, 2:].tolist() == [0.5, 1.5]


def test_the_clipped_distribution_keeps_mean_and_spread_within_bounds() -> None:
    torch.manual_seed(0)
    atoms = torch.linspace(-10.0, 10.0, 101)

    def bell(width: float) -> torch.Tensor:
        return torch.softmax(-0.5 * ((atoms - torch.randn(20, 1)) / width) ** 2, -1)

    def mean_and_std(probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean = (probs * atoms).sum(-1)
        return mean, (probs * (atoms - mean.unsqueeze(-1)) ** 2).sum(-1).sqrt()

    probs, old = bell(1.5), bell(0.5)
    old_mean, old_std = mean_and_std(old)
    shifted_mean, shifted_std = mean_and_std(project(probs, clip_atoms(probs, old, atoms, 0.1, "mean_only"), atoms))
    capped_mean, capped_std = mean_and_std(
        project(probs, clip_atoms(probs, old, atoms, 0.1, "mean_and_variance"), atoms)
    )
    for mean in (shifted_mean, capped_mean):
        assert float((mean - old_mean).abs().max()) < 0.1 + 1e-4
    # Splitting mass between neighbours adds up to (spacing/2)² = 0.01 to the variance.
    torch.testing.assert_close(shifted_std, mean_and_std(probs)[1], rtol=0.01, atol=0.0)
    assert bool((capped_std**2 <= (2.0 * old_std) ** 2 + 0.01).all())


def test_gradient_reaches_the_probabilities_through_clip_and_projection() -> None:
    torch.manual_seed(0)
    atoms = torch.linspace(-2.0, 2.0, 5, dtype=torch.float64)
    logits = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    old = torch.softmax(torch.randn(2, 5, dtype=torch.float64), -1)

    def clipped(x: torch.Tensor) -> torch.Tensor:
        probs = torch.softmax(x, -1)
        return project(probs, clip_atoms(probs, old, atoms, 0.05, "mean_and_variance"), atoms)

    assert torch.autograd.gradcheck(clipped, (logits,))


def test_unknown_modes_are_refused() -> None:
    wrong = cast(ClipMode, "mean")
    with pytest.raises(ValueError, match="mean_only"):
        clip_quantiles(QUANTILES, OLD, 1.0, wrong)
    with pytest.raises(ValueError, match="mean_only"):
        clip_atoms(OLD, OLD, torch.arange(3.0), 1.0, wrong)
