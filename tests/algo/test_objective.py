"""What the loss does to the policy (P02, P05, P06, P08, P09)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from algo.building import batch_of, by_part, gradient_of, make_learner, updates, values_of
from surefoot.algo.batch import Batch
from surefoot.algo.learner import Learner
from surefoot.errors import ConfigError


def indifferent(ent_coef: float, bias: list[float]) -> Learner:
    """A learner with a preference, for whom all advantages are 0: rewards are 0 and the critic says 0."""
    learner = make_learner(
        "surefoot/Bandit-v0", ent_coef=ent_coef, normalize_advantage="none", learning_rate=1e-2, batch_size=64
    )
    learner.flat.named()["output.linear.bias"].copy_(torch.tensor(bias))
    learner.flat.named()["critic.output.weight"].zero_()
    return learner


def learn_without_reward(learner: Learner, times: int) -> list[float]:
    """Entropies of the policy, update by update."""
    found = []
    for _ in range(times):
        rollout = learner.collect()
        rollout.reward.zero_()
        found.append(learner.learn(rollout, times).update.entropy)
    return found


def test_entropy_rises_when_nothing_else_is_to_be_had() -> None:
    """P05."""
    entropies = learn_without_reward(indifferent(0.1, [2.0, 0.0]), 10)
    assert all(later > earlier for earlier, later in pairwise(entropies))
    assert entropies[-1] > entropies[0] + 0.1


def test_without_entropy_bonus_and_advantage_the_actor_does_not_move() -> None:
    learner = indifferent(0.0, [2.0, 0.0])
    before = by_part(learner, values_of(learner))
    learn_without_reward(learner, 3)
    after = by_part(learner, values_of(learner))
    assert torch.equal(before["output"], after["output"])
    assert torch.equal(before["encoder"], after["encoder"])


@pytest.mark.parametrize("n", [1, 2, 4])
def test_entropy_is_summed_over_dimensions_once(n: int) -> None:
    """P06: n independent coins of entropy ln 2."""
    learner = make_learner("surefoot/IdentityBinary-v0", env_kwargs={"n": n}, n_epochs=1)
    (record,) = updates(learner, 1)
    for entropy in (record.entropy, record.entropy_min, record.entropy_max):
        assert entropy == pytest.approx(n * math.log(2), rel=1e-3)


def test_entropy_does_not_depend_on_the_size_of_the_batch() -> None:
    found = [updates(make_learner(n_envs=n, batch_size=16 * n, n_epochs=1), 1)[0].entropy for n in (1, 8)]
    assert found == pytest.approx([math.log(2)] * 2, rel=1e-3)


def sure_of_itself(logit: float, **settings: Any) -> tuple[Learner, Batch]:
    """A policy with the logits (logit, 0) everywhere, and a batch without advantage."""
    learner = make_learner(normalize_advantage="none", **settings)
    learner.flat.named()["output.linear.weight"].zero_()
    learner.flat.named()["output.linear.bias"].copy_(torch.tensor([logit, 0.0]))
    batch = batch_of(learner, learner.collect())
    return learner, batch._replace(advantages=torch.zeros_like(batch.advantages))


@pytest.mark.parametrize(("logit", "slope"), [(12.0, 2.0), (-15.0, -5.0), (500.0, 490.0), (9.9, 0.0), (0.0, 0.0)])
def test_logits_beyond_ten_are_pulled_back(logit: float, slope: float) -> None:
    """P08: c·(|l| − 10)² has the slope 2c·(|l| − 10), also where softmax has none any more."""
    learner, batch = sure_of_itself(logit, logit_penalty=0.1)
    gradient_of(learner, batch)
    found = learner.policy.output.linear.bias.grad
    assert found is not None
    assert found.tolist() == pytest.approx([0.2 * slope, 0.0], abs=1e-6)


def test_the_penalty_is_reported_and_off_by_default() -> None:
    """Before its coefficient: (12 − 10)²."""
    for penalty, expected in ((0.1, 4.0), ("linear(0.3, 0)", 4.0), (0.0, None)):
        learner, _ = sure_of_itself(12.0, logit_penalty=penalty, n_epochs=1, batch_size=64)
        (record,) = updates(learner, 1)
        assert record.metrics().get("train/logit_penalty") == (expected and pytest.approx(expected))


def test_a_penalty_on_logits_is_refused_where_there_are_none() -> None:
    with pytest.raises(ConfigError, match="logit_penalty"):
        make_learner("Pendulum-v1", logit_penalty=0.1)


def row_gradients(learner: Learner, batch: Batch, **changes: Any) -> list[Tensor]:
    """The head's gradient from each row alone."""
    found = []
    for i in range(batch.weight.shape[0]):
        alone = torch.zeros_like(batch.weight)
        alone[i] = 1.0
        gradient = gradient_of(learner, batch._replace(weight=alone), **changes)
        found.append(by_part(learner, gradient)["output"].clone())
    return found


def with_ratios(ratios: list[float], advantages: list[float]) -> tuple[Learner, Batch]:
    """Rows whose action has become so much more likely, with those advantages."""
    learner = make_learner("CartPole-v1", n_envs=1, n_steps=len(ratios), batch_size=len(ratios), vf_coef=0.0)
    batch = batch_of(learner, learner.collect())
    shift = torch.tensor(ratios).log()
    return learner, batch._replace(log_prob=batch.log_prob - shift, advantages=torch.tensor(advantages))


def test_the_second_clip_acts_on_bad_actions_that_became_much_more_likely() -> None:
    """P09, c = 3."""
    ratios = [5.0, 2.9, 1.0, 0.1, 5.0, 1.0, 0.1, 5.0]
    advantages = [-1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 0.0]
    learner, batch = with_ratios(ratios, advantages)
    plain, dual = row_gradients(learner, batch), row_gradients(learner, batch, dual_clip=3.0)
    assert [torch.equal(a, b) for a, b in zip(plain, dual, strict=True)] == [False] + [True] * 7
    assert plain[0].any()
    assert not dual[0].any()


def test_the_clip_cuts_the_gradient_where_the_ratio_has_moved_the_wanted_way() -> None:
    """Range 0.2: cut for A > 0 above 1.2 and for A < 0 below 0.8, and nowhere else."""
    learner, batch = with_ratios([1.3, 1.3, 0.7, 0.7, 1.1, 0.9], [1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    assert [bool(gradient.any()) for gradient in row_gradients(learner, batch)] == [
        False,
        True,
        True,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(("bound", "has_gradient"), [("clamp", False), ("tanh", True)])
def test_only_the_tanh_bound_keeps_a_gradient_beyond_twenty(bound: str, has_gradient: bool) -> None:
    """P02."""
    learner, batch = with_ratios([1.0, 1.0], [-1.0, 1.0])
    # Row 0: a bad action, 25 nats more likely. Row 1: a good one, 25 nats less likely.
    batch = batch._replace(log_prob=batch.log_prob - torch.tensor([25.0, -25.0]))
    gradients = row_gradients(learner, batch, log_ratio_bound=bound)
    assert [bool(gradient.any()) for gradient in gradients] == [has_gradient, has_gradient]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_the_shares_of_extreme_and_bounded_ratios_are_reported() -> None:
    """P02. Of 64 rows 8 are off by 25 nats and 16 by −15; at the first gradient nothing else is."""
    learner = make_learner(n_epochs=1, batch_size=64)
    rollout = learner.collect()
    shift = torch.zeros(64)
    shift[:8], shift[8:24] = 25.0, -15.0
    rollout.log_prob -= shift.view(16, 4)
    record = learner.learn(rollout, 1).update
    assert record.bounded_fraction == 8 / 64
    assert record.extreme_fraction == 24 / 64
    assert record.clip_fraction == 24 / 64
    assert record.log_ratio_max == pytest.approx(25.0, abs=1e-4)
    assert record.log_ratio_mean == pytest.approx(float(shift.mean()), abs=1e-4)
    assert record.log_ratio_std == pytest.approx(float(shift.std(correction=0)), rel=1e-4)
    assert record.metrics()["warn/log_ratio_bounded"] == 8 / 64


def test_the_loss_is_the_sum_of_its_terms() -> None:
    """P05, with every coefficient in use."""
    learner = make_learner(ent_coef=0.03, vf_coef=0.7, clip_range_vf=0.1, logit_penalty=0.2, learning_rate=1e-2)
    for record in updates(learner, 3):
        penalty = record.values["train/logit_penalty"]
        assert record.loss == pytest.approx(
            record.policy_loss + 0.7 * record.value_loss - 0.03 * record.entropy + 0.2 * penalty, rel=1e-4
        )
        assert record.value_loss >= max(record.value_loss_unclipped, record.value_loss_clipped) - 1e-6
