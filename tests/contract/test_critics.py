"""The contract of `surefoot.critics`: every kind of critic runs every test here.

A new kind that the configuration knows is tested without a change here.
"""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import Tensor

from surefoot.config import CriticConfig
from surefoot.critics.base import Critic
from surefoot.critics.build import build_critic
from surefoot.nets.init import Initializer

F, B = 6, 32
KINDS: tuple[str, ...] = get_args(CriticConfig.model_fields["kind"].annotation)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_clip = pytest.mark.parametrize("clip_range", [None, 0.1, torch.tensor(0.1)], ids=["off", "number", "tensor"])


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(kind: str) -> Critic:
    settings = {"kind": kind} if kind == "scalar" else {"kind": kind, "clip_mode": "mean_only"}
    return build_critic(CriticConfig.model_validate(settings), F, Initializer(generator(0)))


def features(seed: int = 0, rows: int = B) -> Tensor:
    return torch.randn(rows, F, generator=generator(seed))


def returns(seed: int = 1, rows: int = B) -> Tensor:
    return torch.randn(rows, generator=generator(seed))


def targets(critic: Critic, prediction: Tensor, seed: int = 1) -> Tensor:
    """What the critic learns from λ-returns [B]: as in a rollout of one env, every step of which terminates."""
    found = returns(seed)[:, None]
    return critic.targets(found, found, torch.zeros_like(found), prediction.detach()[:, None])[:, 0]


@every_kind
def test_shapes(kind: str) -> None:
    critic = build(kind)
    prediction = critic(features())
    assert prediction.shape == (B, critic.n_outputs)
    assert prediction.dtype == torch.float32
    for rows in (prediction, prediction.detach().view(4, 8, critic.n_outputs)):
        assert critic.mean(rows).shape == rows.shape[:-1]
        assert critic.risk(rows, 0.1).shape == rows.shape[:-1]


@every_kind
@every_clip
def test_the_loss_is_per_sample(kind: str, clip_range: float | Tensor | None) -> None:
    critic = build(kind)
    prediction, old = critic(features()), critic(features(5)).detach()
    result = critic.loss(prediction, old, targets(critic, prediction), clip_range)
    for part in result:
        assert part.shape == (B,)
        assert torch.isfinite(part.float()).all()
    assert (result.loss >= 0).all()


@every_kind
@every_clip
def test_a_sample_does_not_see_the_others(kind: str, clip_range: float | Tensor | None) -> None:
    critic = build(kind)
    prediction, old = critic(features()), critic(features(5)).detach()
    wanted = targets(critic, prediction)
    whole = critic.loss(prediction, old, wanted, clip_range).loss
    single = [critic.loss(prediction[i : i + 1], old[i : i + 1], wanted[i : i + 1], clip_range).loss for i in range(B)]
    assert torch.allclose(torch.cat(single), whole, atol=1e-6)


@every_kind
def test_without_a_range_nothing_is_clipped(kind: str) -> None:
    critic = build(kind)
    prediction, old = critic(features()), critic(features(5)).detach()
    result = critic.loss(prediction, old, targets(critic, prediction), None)
    assert torch.equal(result.loss, result.unclipped)
    assert not result.active.any()


@every_kind
def test_a_wide_range_clips_nothing(kind: str) -> None:
    critic = build(kind)
    prediction, old = critic(features()), critic(features(5)).detach()
    wanted = targets(critic, prediction)
    off, wide = (critic.loss(prediction, old, wanted, clip_range) for clip_range in (None, 1e6))
    assert torch.allclose(wide.loss, off.loss, atol=1e-5)
    assert not wide.active.any()


@every_kind
def test_the_larger_of_both_losses_is_taken(kind: str) -> None:
    """C01."""
    critic = build(kind)
    prediction, old = critic(features()), critic(features(5)).detach()
    result = critic.loss(prediction, old, targets(critic, prediction), 0.05)
    assert torch.equal(result.loss, torch.maximum(result.unclipped, result.clipped))
    assert torch.equal(result.active.bool(), result.clipped > result.unclipped)
    assert 0 < int(result.active.sum()) < B


@every_kind
@every_clip
def test_the_gradient_reaches_every_parameter_and_neither_old_nor_targets(
    kind: str, clip_range: float | Tensor | None
) -> None:
    """C09."""
    critic = build(kind)
    seen = features().requires_grad_()
    prediction, old = critic(seen), critic(features(5)).detach().requires_grad_()
    wanted = targets(critic, prediction)
    critic.loss(prediction, old, wanted, clip_range).loss.mean().backward()  # type: ignore[no-untyped-call]
    for name, parameter in critic.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    assert seen.grad is not None
    assert seen.grad.abs().sum() > 0  # the trunk learns too
    assert old.grad is None or not old.grad.any()


@every_kind
def test_the_mean_is_learned(kind: str) -> None:
    critic = build(kind)
    seen = features(rows=B)
    slope = torch.linspace(-1, 1, F)
    wanted = (seen @ slope)[:, None]
    critic.update_statistics(wanted, torch.ones(B, 1, dtype=torch.bool))
    optimizer = torch.optim.Adam(critic.parameters(), 0.1)
    for _ in range(150):
        prediction = critic(seen)
        goal = critic.targets(wanted, wanted, torch.zeros_like(wanted), prediction.detach()[:, None])[:, 0]
        optimizer.zero_grad()
        critic.loss(prediction, prediction.detach(), goal, None).loss.mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    error = critic.mean(critic(seen)) - wanted[:, 0]
    assert error.square().mean() < 0.05 * wanted.var()


@every_kind
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_the_worst_share_is_not_better_than_the_mean(kind: str, alpha: float) -> None:
    critic = build(kind)
    prediction = critic(features())
    assert (critic.risk(prediction, alpha) <= critic.mean(prediction) + 1e-5).all()
    assert torch.allclose(critic.risk(prediction, 1.0), critic.mean(prediction), atol=1e-5)


@every_kind
def test_equal_generators_build_equal_critics(kind: str) -> None:
    one, two = build(kind), build(kind)
    for left, right in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(left, right)


@every_kind
def test_the_reported_heads_hold_each_parameter_once(kind: str) -> None:
    """O05."""
    critic = build(kind)
    held = [id(parameter) for part in critic.parts().values() for parameter in part.parameters()]
    assert sorted(held) == sorted(id(parameter) for parameter in critic.parameters())


@every_kind
def test_taking_in_statistics_moves_no_raw_prediction(kind: str) -> None:
    """A09. The first statistics may place a critic that has learned nothing yet; later ones must not move it.

    Returns have the spread 1. A distribution on a grid of atoms is carried over to a wider grid as well as a linear
    layer can.
    """
    critic = build(kind)
    every = torch.ones(B, 1, dtype=torch.bool)
    with torch.no_grad():
        critic.update_statistics(returns(1)[:, None], every)
        before = critic.mean(critic(features()))
        critic.update_statistics(1.5 * returns(2)[:, None] + 0.5, every)
        after = critic.mean(critic(features()))
    assert after.mean().item() == pytest.approx(before.mean().item(), abs=0.05)
    assert torch.allclose(after, before, atol=0.25)
