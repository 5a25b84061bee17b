"""The gradient of a minibatch: exact in pieces, clipped by norm, reported by part (O01, O02, O04, O05, C09)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from algo.building import batch_of, by_part, gradient_of, learner_on, make_learner, seeded, shake, updates, values_of
from surefoot.algo.batch import Batch
from surefoot.algo.coefficients import Coefficients
from surefoot.algo.learner import Learner
from surefoot.algo.step import EagerStep
from vector.worlds import Scripted, open_envs

B = 24


def shaken(env: str = "CartPole-v1", **settings: Any) -> tuple[Learner, Batch]:
    """A learner whose policy has left the one that acted, and its rollout."""
    options = {"n_envs": 2, "n_steps": B // 2, "batch_size": B, "clip_range_vf": 0.2, "ent_coef": 0.01} | settings
    learner = make_learner(env, **options)
    batch = batch_of(learner, learner.collect())
    shake(learner)
    return learner, batch


def slow_gradient(learner: Learner, batch: Batch, c: Coefficients) -> Tensor:
    """PPO for a Discrete space written out, on a copy of the network with parameters of its own."""
    policy = copy.deepcopy(learner.policy)
    for parameter in policy.parameters():
        parameter.grad = None
    logits, prediction = policy(batch.observation)
    log_probs = logits - logits.exp().sum(1, keepdim=True).log()
    assert batch.action is not None
    ratio = (log_probs[torch.arange(B), batch.action.squeeze(1)] - batch.log_prob).exp()
    clipped = ratio.clamp(1 - c.clip_range, 1 + c.clip_range)
    policy_loss = -torch.minimum(ratio * batch.advantages, clipped * batch.advantages)
    value, old = prediction[:, 0], batch.prediction[:, 0]
    near = old + (value - old).clamp(-c.clip_range_vf, c.clip_range_vf)
    value_loss = torch.maximum((value - batch.returns) ** 2, (near - batch.returns) ** 2)
    loss = policy_loss + c.vf_coef * value_loss - c.ent_coef * -(log_probs.exp() * log_probs).sum(1)
    mean = (loss * batch.weight).sum() / batch.weight.sum()
    parts = policy.parts()
    parameters = [parameter for part in parts.values() for parameter in part.parameters()]
    found = torch.autograd.grad(mean, parameters)
    return torch.cat([gradient.reshape(-1) for gradient in found])


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
def test_the_gradient_is_that_of_the_formula(shared: bool) -> None:
    learner, batch = shaken(policy={"hidden_sizes": (16,), "shared": shared})
    c = learner.plan.at(0, 1)
    weight = (torch.rand(B, generator=seeded(1)) < 0.7).float()
    batch = batch._replace(weight=weight)
    assert torch.allclose(gradient_of(learner, batch, c), slow_gradient(learner, batch, c), atol=1e-6)


def weights(kind: str) -> Tensor:
    if kind == "all":
        return torch.ones(B)
    if kind == "some":
        return (torch.rand(B, generator=seeded(2)) < 0.6).float()
    if kind == "graded":
        return torch.rand(B, generator=seeded(2))
    empty = torch.ones(B)  # no valid row in the middle: pieces of up to 8 rows there are empty
    empty[8:20] = 0.0
    return empty


@pytest.mark.parametrize("kind", ["all", "some", "graded", "hole"])
def test_pieces_of_any_size_give_the_gradient_of_the_whole(kind: str) -> None:
    """O01."""
    learner, batch = shaken()
    batch = batch._replace(weight=weights(kind))
    whole = gradient_of(learner, batch)
    largest = whole.abs().max()
    assert largest > 1e-2
    for size in range(1, B):
        error = gradient_of(learner, batch, micro_batch_size=size) - whole
        assert error.abs().max() < 1e-6 * largest, f"pieces of {size} rows"


@pytest.mark.parametrize("size", [1, 5, 8, 23])
def test_advantages_are_normalized_over_the_minibatch_not_over_its_pieces(size: int) -> None:
    """A05."""
    learner, batch = shaken(normalize_advantage="minibatch")
    whole = gradient_of(learner, batch)
    other = gradient_of(learner, batch, normalize_advantage="none")
    assert not torch.allclose(whole, other, atol=1e-4)
    assert torch.allclose(gradient_of(learner, batch, micro_batch_size=size), whole, atol=1e-6)


@pytest.mark.parametrize("size", [1, 5, 8, 23])
def test_statistics_of_pieces_are_those_of_the_whole(size: int) -> None:
    learner, batch = shaken()
    batch = batch._replace(weight=weights("hole"))
    found = []
    for micro_batch_size in (None, size):
        ppo = learner.config.ppo.model_copy(update={"micro_batch_size": micro_batch_size})
        step = EagerStep(learner.policy, learner.family, learner.flat, learner.optimizer, ppo, learner.terms)
        found.append(step.gradient(batch, learner.plan.at(0, 1)))
    whole, pieces = found
    assert whole.rows is not None
    assert pieces.rows is not None
    assert torch.allclose(whole.rows, pieces.rows, atol=1e-5)
    assert torch.allclose(whole.loss, pieces.loss, atol=1e-4)
    assert torch.allclose(whole.largest, pieces.largest, atol=1e-5)


def test_training_in_pieces_is_training() -> None:
    whole, pieces = (make_learner(micro_batch_size=size, max_grad_norm=None) for size in (None, 5))
    for learner in (whole, pieces):
        updates(learner, 2)
    assert torch.allclose(values_of(whole), values_of(pieces), atol=1e-5)


@pytest.mark.parametrize("source", ["group", "next-step"])
def test_training_in_pieces_copes_with_reset_rows(source: str) -> None:
    found = []
    for size in (None, 1):
        learner = learner_on(open_envs(source, [Scripted] * 2), n_steps=16, batch_size=16, micro_batch_size=size)
        (record,) = updates(learner, 1)
        assert record.entropy_min == pytest.approx(0.69, abs=0.01)
        found.append(values_of(learner))
    assert torch.allclose(found[0], found[1], atol=1e-5)


def first_moment(**settings: Any) -> tuple[Tensor, Tensor, Any]:
    """The gradient of the only step of an update, what Adam made of it, and the record."""
    options = {"n_envs": 2, "n_steps": B // 2, "batch_size": B, "n_epochs": 1} | settings
    learner = make_learner("CartPole-v1", **options)
    rollout = learner.collect()
    gradient = gradient_of(learner, batch_of(learner, rollout))
    record = learner.learn(rollout, 1).update
    return gradient, learner.optimizer.state_dict()["mean"].clone(), record


def test_a_long_gradient_is_scaled_down_and_its_norm_reported_as_it_was() -> None:
    """O02. After one step Adam's mean is 0.1 of the gradient that it was given."""
    gradient, mean, record = first_moment(max_grad_norm=0.01)
    assert gradient.norm() > 0.1
    assert torch.allclose(mean, 0.1 * gradient * (0.01 / gradient.norm()), atol=1e-7)
    assert record.gradient_norm == pytest.approx(float(gradient.norm()), rel=1e-5)
    assert record.clipped_gradients == 1.0


@pytest.mark.parametrize("limit", [1e6, 0.0, None])
def test_a_gradient_within_the_limit_is_left_alone(limit: float | None) -> None:
    gradient, mean, record = first_moment(max_grad_norm=limit)
    assert torch.allclose(mean, 0.1 * gradient, atol=1e-7)
    assert record.gradient_norm == pytest.approx(float(gradient.norm()), rel=1e-5)
    assert record.clipped_gradients == 0.0


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
def test_norms_by_part_are_those_of_the_parameters_gradients(shared: bool) -> None:
    """O05, before clipping."""
    options: dict[str, Any] = {"policy": {"hidden_sizes": (16,), "shared": shared}, "max_grad_norm": 0.01}
    learner = make_learner("CartPole-v1", n_envs=2, n_steps=B // 2, batch_size=B, n_epochs=1, **options)
    rollout = learner.collect()
    gradient_of(learner, batch_of(learner, rollout))
    expected = {
        name: sum(float(p.grad.square().sum()) for p in part.parameters() if p.grad is not None) ** 0.5
        for name, part in learner.policy.parts().items()
    }
    record = learner.learn(rollout, 1).update
    assert record.gradient_norms == pytest.approx(expected, rel=1e-5)
    assert sum(norm**2 for norm in expected.values()) == pytest.approx(record.gradient_norm**2, rel=1e-5)
    assert all(norm > 0 for norm in expected.values())


def moved(learner: Learner) -> dict[str, bool]:
    before = values_of(learner)
    updates(learner, 1)
    return {part: bool(piece.any()) for part, piece in by_part(learner, values_of(learner) - before).items()}


def test_without_value_loss_the_critic_stays() -> None:
    """C09: only its own loss term moves it."""
    assert moved(make_learner(vf_coef=0.0)) == {
        "encoder": True,
        "output": True,
        "value_encoder": False,
        "critic": False,
    }


def test_without_advantage_the_actor_stays() -> None:
    learner = make_learner(normalize_advantage="none", ent_coef=0.0)
    rollout = learner.collect()
    # Advantages are 0 if rewards and values are; then the actor has nothing to learn and the critic has.
    learner.flat.named()["critic.output.weight"].zero_()
    rollout.reward.zero_()
    batch = batch_of(learner, rollout)
    assert not batch.advantages.any()
    gradient = by_part(
        learner, gradient_of(learner, batch._replace(returns=batch.returns + 1, targets=batch.targets + 1))
    )
    assert not gradient["encoder"].any()
    assert not gradient["output"].any()
    assert gradient["critic"].any()


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
def test_weight_decay_acts_on_the_critic_only(optimizer: str, shared: bool) -> None:
    """O04. One gradient step, so that a different critic has no time to lead to a different actor."""
    options: dict[str, Any] = {"n_epochs": 1, "batch_size": 64, "policy": {"hidden_sizes": (16,), "shared": shared}}
    plain = make_learner(**options)
    decayed = make_learner(optimizer=optimizer, weight_decay=0.5, **options)
    everywhere = make_learner(optimizer=optimizer, weight_decay=0.5, decay_scope="all", **options)
    for learner in (plain, decayed, everywhere):
        updates(learner, 1)
    reference = by_part(plain, values_of(plain))
    same = {part: torch.equal(piece, reference[part]) for part, piece in by_part(decayed, values_of(decayed)).items()}
    assert {part for part, equal in same.items() if not equal} == (
        {"critic"} if shared else {"value_encoder", "critic"}
    )
    assert not any(
        torch.equal(piece, reference[part]) for part, piece in by_part(everywhere, values_of(everywhere)).items()
    )
