from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from surefoot.math.returns import gae


def column(*values: float) -> Tensor:
    return torch.tensor(values).unsqueeze(1)


def test_an_unbroken_rollout_bootstraps_from_its_last_successor() -> None:
    # γ = 0.5, λ = 0.5, γλ = 0.25
    # δ_1 = 2 + 0.5·8 − 4 = 2,     A_1 = 2
    # δ_0 = 1 + 0.5·4 − 2 = 1,     A_0 = 1 + 0.25·2 = 1.5
    advantages, returns = gae(
        rewards=column(1, 2),
        values=column(2, 4),
        successor_values=column(4, 8),
        terminated=column(0, 0),
        truncated=column(0, 0),
        gamma=0.5,
        gae_lambda=0.5,
    )
    assert advantages.tolist() == [[1.5], [2.0]]
    assert returns.tolist() == [[3.5], [6.0]]


def test_termination_ends_the_future_and_truncation_bootstraps_it() -> None:
    # δ terminated: 1 − 2 = −1.   δ truncated: 1 + 0.5·10 − 2 = 4.   No trace across either.
    flags = torch.tensor([[True, False], [False, False]])
    advantages, _ = gae(
        rewards=torch.ones(2, 2),
        values=torch.full((2, 2), 2.0),
        successor_values=torch.full((2, 2), 10.0),
        terminated=flags,
        truncated=flags.flip(1),
        gamma=0.5,
        gae_lambda=1.0,
    )
    assert advantages.tolist() == [[-1.0, 4.0], [4.0, 4.0]]


def test_both_flags_at_once_count_as_termination() -> None:
    advantages, _ = gae(column(1), column(2), column(10), column(1), column(1), 0.5, 1.0)
    assert advantages.tolist() == [[-1.0]]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_the_successor_value_of_a_terminated_step_is_not_read(bad: float) -> None:
    advantages, returns = gae(column(1, 1), column(2, 2), column(bad, 4), column(1, 0), column(0, 0), 0.5, 1.0)
    assert advantages.tolist() == [[-1.0], [1.0]]
    assert returns.tolist() == [[1.0], [3.0]]


def test_a_reset_row_is_no_transition() -> None:
    # Episode ends at row 0 (truncated, δ = 1 + 0.5·10 − 2 = 4); row 1 is the reset; row 2 has δ = 4 again.
    nan = torch.nan
    advantages, returns = gae(
        rewards=column(1, nan, 1),
        values=column(2, nan, 2),
        successor_values=column(10, nan, 10),
        terminated=column(0, 0, 0),
        truncated=column(1, 0, 0),
        gamma=0.5,
        gae_lambda=1.0,
        valid=column(1, 0, 1),
    )
    assert advantages.tolist() == [[4.0], [0.0], [4.0]]
    assert returns.tolist() == [[6.0], [0.0], [6.0]]


def test_reset_rows_and_same_step_resets_give_the_same_advantages() -> None:
    torch.manual_seed(0)
    rewards, values, successors = torch.randn(6, 1), torch.randn(6, 1), torch.randn(6, 1)
    truncated = column(0, 0, 1, 0, 0, 0)
    terminated = torch.zeros(6, 1)
    same_step, _ = gae(rewards, values, successors, terminated, truncated, 0.99, 0.95)

    def with_reset_row(x: Tensor, filler: float) -> Tensor:
        return torch.cat([x[:3], torch.full((1, 1), filler), x[3:]])

    next_step, _ = gae(
        with_reset_row(rewards, 123.0),
        with_reset_row(values, -7.0),
        with_reset_row(successors, 5.0),
        with_reset_row(terminated, 0.0),
        with_reset_row(truncated, 0.0),
        0.99,
        0.95,
        valid=column(1, 1, 1, 0, 1, 1, 1),
    )
    assert torch.equal(torch.cat([next_step[:3], next_step[4:]]), same_step)


def test_lambda_one_gives_discounted_returns_and_lambda_zero_one_step_residuals() -> None:
    rewards, values, successors = column(1, 1, 1), column(5, 6, 7), column(6, 7, 9)
    terminated, truncated = column(0, 0, 1), column(0, 0, 0)
    _, returns = gae(rewards, values, successors, terminated, truncated, 0.5, 1.0)
    assert returns.tolist() == [[1.75], [1.5], [1.0]]
    advantages, _ = gae(rewards, values, successors, terminated, truncated, 0.5, 0.0)
    assert advantages.tolist() == [[-1.0], [-1.5], [-6.0]]


@pytest.mark.parametrize("flag_dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_kept_and_flags_may_have_any(dtype: torch.dtype, flag_dtype: torch.dtype) -> None:
    floats = torch.ones(3, 2, dtype=dtype)
    flags = torch.tensor([[0, 1], [1, 0], [0, 0]]).to(flag_dtype)
    advantages, returns = gae(floats, floats, floats, flags, flags, 0.9, 0.9, valid=1 - flags.to(torch.int8))
    assert advantages.dtype == returns.dtype == dtype
    assert advantages.shape == returns.shape == (3, 2)


def test_an_empty_rollout_has_no_advantages() -> None:
    empty = torch.zeros(0, 3)
    advantages, returns = gae(empty, empty, empty, empty, empty, 0.9, 0.9)
    assert advantages.shape == returns.shape == (0, 3)


def test_a_wrong_shape_is_refused_instead_of_broadcast() -> None:
    x = torch.zeros(4, 2)
    with pytest.raises(ValueError, match=r"\(4, 2\).*\(4, 1\)"):
        gae(x, x, x[:, :1], x, x, 0.9, 0.9)
    with pytest.raises(ValueError, match=r"\[T, N\]"):
        gae(x[:, 0], x[:, 0], x[:, 0], x[:, 0], x[:, 0], 0.9, 0.9)


def test_an_overflow_is_no_warning() -> None:
    zero = torch.zeros(3, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        advantages, _ = gae(torch.full((3, 1), 2e38), zero, zero, zero, zero, 0.99, 0.95)
    assert advantages[0, 0] == torch.inf
