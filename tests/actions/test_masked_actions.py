"""Illegal actions do not exist for the policy (F01)."""

from __future__ import annotations

import math

import pytest
import torch
from gymnasium import spaces

from surefoot.actions.distribution import Distribution
from surefoot.actions.registry import family_for
from surefoot.errors import UnsupportedSpaceError

DISCRETE = family_for(spaces.Discrete(4))
FACTORED = family_for(spaces.MultiDiscrete([2, 3]))


def test_legal_actions_share_all_the_probability() -> None:
    dist = DISCRETE.bind(torch.zeros(1, 4), torch.tensor([[True, False, True, False]]))
    log_probs = torch.cat([dist.log_prob(torch.tensor([[action]])) for action in range(4)])
    assert log_probs.exp().tolist() == pytest.approx([0.5, 0.0, 0.5, 0.0])
    assert log_probs.exp()[1] == 0.0
    assert dist.entropy().item() == pytest.approx(math.log(2))


def test_a_factored_mask_is_the_sub_masks_one_after_another() -> None:
    dist = FACTORED.bind(torch.zeros(1, 5), torch.tensor([[False, True, True, False, True]]))
    assert dist.log_prob(torch.tensor([[1, 2]])).item() == pytest.approx(math.log(1 / 2))
    assert dist.log_prob(torch.tensor([[0, 2]])).exp().item() == 0.0
    assert dist.log_prob(torch.tensor([[1, 1]])).exp().item() == 0.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_illegal_logits_get_no_gradient_and_legal_ones_a_finite_one(dtype: torch.dtype, scale: float) -> None:
    mask = torch.tensor([[True, False, True, False], [False, False, False, True]])
    logits = (scale * torch.tensor([[1.0, 5.0, -2.0, 0.0], [1.0, 2.0, 3.0, -4.0]])).to(dtype)
    new_logits = logits.flip(0).requires_grad_()
    logits.requires_grad_()
    dist = DISCRETE.bind(logits, mask)
    action = torch.tensor([[0], [3]])
    terms = dist.log_prob(action) + dist.entropy() + dist.kl(DISCRETE.bind(new_logits, mask))
    assert terms.isfinite().all()
    terms.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    for gradient in (logits.grad, new_logits.grad):
        assert gradient is not None
        assert gradient.isfinite().all()
        assert (gradient[~mask] == 0).all()


def test_one_legal_action_has_no_entropy_no_surprise_and_no_gradient() -> None:
    logits = torch.tensor([[3.0, -1.0, 7.0, 0.5]], requires_grad=True)
    dist = DISCRETE.bind(logits, torch.tensor([[False, True, False, False]]))
    assert dist.entropy().item() == 0.0
    assert dist.log_prob(torch.tensor([[1]])).item() == 0.0
    (dist.entropy() + dist.log_prob(torch.tensor([[1]]))).sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert (logits.grad == 0).all()


def drawn_and_mode(dist: Distribution) -> torch.Tensor:
    return torch.stack([dist.sample(torch.Generator().manual_seed(0)), dist.mode()])


def test_an_illegal_action_is_never_chosen_however_much_the_network_wants_it() -> None:
    logits = torch.tensor([[1e4, -1e4, 1e4, -1e4]]).expand(50_000, -1)
    chosen = drawn_and_mode(DISCRETE.bind(logits, torch.tensor([False, True, False, True]).expand(50_000, -1)))
    assert set(chosen.flatten().tolist()) == {1, 3}


def test_a_nan_among_legal_logits_does_not_open_an_illegal_action() -> None:
    logits = torch.tensor([[0.0, 0.0, math.nan, 0.0]])
    chosen = drawn_and_mode(DISCRETE.bind(logits, torch.tensor([[False, False, True, True]])))
    assert set(chosen.flatten().tolist()) <= {2, 3}


def test_padding_of_unequal_sub_actions_is_never_chosen() -> None:
    chosen = drawn_and_mode(FACTORED.bind(torch.full((50_000, 5), -50.0)))
    assert chosen[..., 0].max() == 1
    assert chosen[..., 1].max() == 2


def test_kl_is_enormous_where_the_new_mask_forbids_what_the_old_allowed() -> None:
    allowed = DISCRETE.bind(torch.zeros(1, 4), torch.tensor([[True, True, False, False]]))
    forbidden = DISCRETE.bind(torch.zeros(1, 4), torch.tensor([[True, False, False, False]]))
    assert allowed.kl(forbidden).item() > 1e30
    assert forbidden.kl(allowed).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (spaces.MultiBinary(2), "auto"),
        (spaces.Box(-1, 1, (2,)), "gaussian"),
        (spaces.Box(-1, 1, (2,)), "tanh_gaussian"),
        (spaces.Box(-1, 1, (2,)), "beta"),
    ],
)
def test_a_mask_that_would_be_ignored_is_an_error(space: spaces.Space[object], kind: str) -> None:  # P12
    family = family_for(space, kind)
    with pytest.raises(UnsupportedSpaceError, match="takes no action mask"):
        family.bind(torch.zeros(1, 4), torch.ones(1, 4, dtype=torch.bool))
