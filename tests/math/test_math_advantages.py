from __future__ import annotations

import pytest
import torch

from surefoot.math.advantages import (
    normalize,
    std_is_zero,
)


def test_three_numbers_by_hand() -> None:
    # mean 4, deviations −2, 0, 2, sample variance (4 + 0 + 4)/2 = 4, std 2
    torch.testing.assert_close(normalize(torch.tensor([2.0, 4.0, 6.0])), torch.tensor([-1.0, 0.0, 1.0]))


def test_the_result_has_mean_zero_and_unit_sample_std() -> None:
    torch.manual_seed(0)
    result = normalize(100.0 + 3.0 * torch.randn(128, 8))
    assert float(result.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(result.std()) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("least", "size"), [(0.0, 1.0), (2.0, 1.0), (8.0, 0.25), (1e30, 0.0)])
def test_a_small_spread_is_not_made_larger_than_asked_for(least: float, size: float) -> None:
    """Of {2, 4, 6} the std is 2."""
    expected = size * torch.tensor([-1.0, 0.0, 1.0])
    torch.testing.assert_close(normalize(torch.tensor([2.0, 4.0, 6.0]), least_std=least), expected)
    columns = torch.tensor([[2.0, 20.0], [4.0, 40.0], [6.0, 60.0]])  # the second has the std 20
    found = normalize(columns, least_std=torch.tensor(least), by_env=True)
    torch.testing.assert_close(found[:, 0], expected)
    assert found[2, 1].item() == pytest.approx(min(20.0 / max(least, 1e-9), 1.0))


def test_invalid_entries_are_zero_and_have_no_influence() -> None:
    advantages = torch.tensor([[2.0, torch.nan], [4.0, torch.inf], [6.0, -1e30]])
    valid = torch.tensor([[1, 0], [1, 0], [1, 0]])
    torch.testing.assert_close(normalize(advantages, valid), torch.tensor([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]))


@pytest.mark.parametrize(
    "advantages",
    [
        torch.zeros(5),
        torch.full((5,), 3.3),
        torch.tensor([7.0]),
        1e6 + torch.tensor([0.0, 0.0625, -0.0625, 0.125, 0.0]),
        torch.full((1000,), 0.1).cumsum(0) - 0.1 * torch.arange(1, 1001) + 1e3,
    ],
    ids=["zeros", "constant", "one sample", "last bits of a million", "rounding of a sum"],
)
def test_without_spread_the_result_is_zero_and_says_so(advantages: torch.Tensor) -> None:
    assert torch.equal(normalize(advantages), torch.zeros_like(advantages))
    assert bool(std_is_zero(advantages))


def test_a_real_spread_on_a_large_offset_is_kept() -> None:
    advantages = 1e6 + torch.tensor([-10.0, 10.0])
    torch.testing.assert_close(normalize(advantages), torch.tensor([-(0.5**0.5), 0.5**0.5]))
    assert not bool(std_is_zero(advantages))


@pytest.mark.parametrize("scale", [1e-38, 1e-20, 1e20, 1e37])
def test_the_scale_does_not_matter(scale: float) -> None:
    advantages = torch.tensor([-1.0, 0.5, 2.0, 0.25])
    torch.testing.assert_close(normalize(scale * advantages), normalize(advantages))


def test_the_magnitude_of_what_was_subtracted_raises_the_tolerance() -> None:
    # Returns and values of size 1e6 differ in their last bits only.
    advantages = torch.tensor([0.0625, -0.0625, 0.125, 0.0])
    assert not bool(std_is_zero(advantages))
    assert bool(std_is_zero(advantages, magnitude=1e6))
    assert torch.equal(normalize(advantages, magnitude=torch.tensor(1e6)), torch.zeros(4))


def test_no_valid_entry_gives_zeros() -> None:
    advantages, nothing = torch.full((3, 2), torch.nan), torch.zeros(3, 2)
    assert torch.equal(normalize(advantages, nothing), nothing)
    assert torch.equal(normalize(advantages, nothing, by_env=True), nothing)
    assert bool(std_is_zero(advantages, nothing))
    assert normalize(torch.zeros(0, 2)).shape == (0, 2)
    assert bool(std_is_zero(torch.zeros(0, 2)))
    assert std_is_zero(torch.zeros(0, 2), by_env=True).tolist() == [True, True]


def test_a_bad_valid_entry_is_not_hidden() -> None:
    assert bool(torch.isnan(normalize(torch.tensor([1.0, torch.nan, 2.0]))).all())
    assert not bool(std_is_zero(torch.tensor([1.0, torch.nan, 2.0])))


def test_by_env_each_column_has_its_own_statistics() -> None:
    advantages = torch.tensor([[2.0, 200.0, 5.0], [4.0, 400.0, 5.0], [6.0, 600.0, 5.0]])
    expected = torch.tensor([[-1.0, -1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    torch.testing.assert_close(normalize(advantages, by_env=True), expected)
    assert std_is_zero(advantages, by_env=True).tolist() == [False, False, True]
