"""Raw values stay where they are when the scale of normalized rewards moves (A11)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from algo.building import iterate, learner_on, make_learner, values_of
from critics.cases import CASES, Case
from surefoot.algo.estimate import predict
from surefoot.algo.learner import Learner
from surefoot.critics.auxiliary import WithAuxiliary
from surefoot.rollout.buffer import Rollout
from vector.worlds import Scripted, open_envs

KINDS = [case for case in CASES if case.has(clip_mode="none", targets="lambda") and not case.clips]
every_kind = pytest.mark.parametrize("case", [case for case in KINDS if "v_min" not in case.critic], ids=str)
fixed_support = pytest.mark.parametrize("case", [case for case in KINDS if "v_min" in case.critic], ids=str)


def trained(size: float = 1.0, **settings: Any) -> Learner:
    """After two updates on rewards of about 1 to 5 times ``size``, normalized."""
    envs = open_envs("group", [lambda n=n: Scripted(n, reward_scale=size) for n in range(3)])  # type: ignore[misc]
    learner = learner_on(
        envs, n_steps=32, batch_size=32, n_epochs=4, learning_rate=1e-2, normalize_rewards=True, **settings
    )
    iterate(learner, 2)
    return learner


def scale_of(learner: Learner) -> float:
    assert learner.rewards is not None
    return learner.rewards.scale


def raw_values(learner: Learner, rollout: Rollout) -> Tensor:
    with torch.no_grad():
        return scale_of(learner) * learner.policy.critic.mean(predict(rollout, learner.policy)[0])


def jump(learner: Learner, size: float) -> tuple[float, Tensor, Tensor, Tensor]:
    """A rollout with rewards ``size`` times as large: s/s′, then raw values before, in the estimates, and after."""
    rollout = learner.collect()
    old, before = scale_of(learner), raw_values(learner, rollout)
    rollout.reward.mul_(size)
    learner._observe(rollout, 0.0)
    found = learner._estimate(rollout)
    new = scale_of(learner)
    return old / new, before, new * found.values, raw_values(learner, rollout)


@every_kind
@pytest.mark.parametrize("size", [60.0, 1e4])
def test_raw_values_do_not_move_with_the_scale(case: Case, size: float) -> None:
    factor, before, estimated, after = jump(trained(**case.settings), size)
    assert factor < 1 / 30
    tolerance = 1e-5 * float(before.abs().max())
    torch.testing.assert_close(estimated, before, atol=tolerance, rtol=1e-5)
    torch.testing.assert_close(after, before, atol=tolerance, rtol=1e-5)


@fixed_support
def test_a_fixed_support_keeps_raw_values_to_within_an_atom(case: Case) -> None:
    """51 atoms from −6 to 6 are 0.24 apart."""
    learner = trained(**case.settings)
    factor, before, _, after = jump(learner, 6.0)
    assert factor < 1 / 3
    assert (after - before).abs().max() < 0.24 * scale_of(learner)
    assert (after - before).abs().max() < 0.25 * (before / factor - before).abs().max()


@pytest.mark.parametrize("popart", [False, True])
def test_predictions_of_the_cost_are_raw_and_stay(popart: bool) -> None:
    learner = make_learner(
        "surefoot/CostlyArm-v0",
        normalize_rewards=True,
        critic={"popart": popart},
        risk={"kind": "cost_constraint", "limit_per_episode": 0.3},
    )
    iterate(learner, 2)
    critic = learner.policy.critic
    assert isinstance(critic, WithAuxiliary)
    rollout = learner.collect()
    with torch.no_grad():
        before = critic.mean_auxiliary(predict(rollout, learner.policy)[0])
        old, values = scale_of(learner), raw_values(learner, rollout)
        rollout.reward.mul_(60.0)
        learner._observe(rollout, 0.0)
        assert torch.equal(critic.mean_auxiliary(predict(rollout, learner.policy)[0]), before)
    assert scale_of(learner) > 10.0 * old
    torch.testing.assert_close(raw_values(learner, rollout), values, atol=1e-5, rtol=1e-5)


def test_a_critic_that_has_seen_nothing_but_zeros_has_nothing_to_keep() -> None:
    """Its predictions are noise of about 1, which would be a million in the unit of the first rewards."""
    learner = trained(0.0)
    before = values_of(learner)
    rollout = learner.collect()
    rollout.reward.uniform_(0.0, 1e-6)
    learner._observe(rollout, 0.0)
    assert scale_of(learner) < 1e-5
    assert torch.equal(values_of(learner), before)


def test_a_resumed_learner_rescales_alike() -> None:
    """Y02: the scale is saved, so the factor is the same."""
    first, second = (make_learner(normalize_rewards=True, learning_rate=1e-2) for _ in range(2))
    iterate(first, 2)
    second.load_state_dict(first.state_dict())
    for learner in (first, second):
        rollout = learner.collect()
        rollout.reward.mul_(60.0)
        learner.learn(rollout, 6)
        iterate(learner, 1)
    assert torch.equal(values_of(first), values_of(second))
