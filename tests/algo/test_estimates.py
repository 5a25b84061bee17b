"""Values, advantages and returns of a rollout (A02, A04, A05, A06, C11)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from algo.building import estimates_of, learner_on, make_learner, updates
from surefoot.algo.estimate import Estimates, finished, predict
from surefoot.algo.learner import Learner
from surefoot.rollout.buffer import Rollout
from vector.worlds import SOURCES, Ending, Scripted, open_envs

every_source = pytest.mark.parametrize("source", SOURCES)


def estimated(learner: Learner, rollout: Rollout) -> Estimates:
    return estimates_of(learner, rollout)


def scripted(source: str, **settings: Any) -> Learner:
    envs = open_envs(source, [lambda n=n: Scripted(n) for n in range(3)])  # type: ignore[misc]
    return learner_on(envs, n_steps=32, batch_size=32, **settings)


@every_source
def test_over_the_rollout_advantages_have_mean_0_and_spread_1(source: str) -> None:
    learner = scripted(source, normalize_advantage="rollout")
    rollout = learner.collect()
    found = estimated(learner, rollout).advantages
    assert found[rollout.valid].mean().item() == pytest.approx(0.0, abs=1e-5)
    assert found[rollout.valid].std().item() == pytest.approx(1.0, abs=1e-4)
    assert not found[~rollout.valid].any()


@every_source
def test_within_each_env_advantages_have_mean_0_and_spread_1(source: str) -> None:
    """A06."""
    learner = scripted(source, normalize_advantage="env")
    rollout = learner.collect()
    found = estimated(learner, rollout).advantages
    for n in range(3):
        column = found[:, n][rollout.valid[:, n]]
        assert column.mean().item() == pytest.approx(0.0, abs=1e-5)
        assert column.std().item() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("mode", ["none", "minibatch"])
def test_other_modes_leave_the_rollout_as_it_is(mode: str) -> None:
    learner = scripted("next-step", normalize_advantage=mode)
    found = estimated(learner, learner.collect())
    assert torch.equal(found.advantages, found.raw_advantages)


def test_returns_are_advantages_plus_values_whatever_the_normalization() -> None:
    learner = scripted("group", normalize_advantage="rollout")
    found = estimated(learner, learner.collect())
    assert torch.allclose(found.returns, found.raw_advantages + found.values, atol=1e-5)


def indifferent(**settings: Any) -> tuple[Learner, Rollout]:
    """All rewards equal, every step an episode, a critic that says 0: no advantage differs from another."""
    envs = open_envs("group", [lambda: Scripted(0, (Ending(1, True, False),))] * 2)
    learner = learner_on(envs, n_steps=16, batch_size=32, n_epochs=1, **settings)
    for name, weights in learner.flat.named().items():
        if name.endswith("output.weight") and name.startswith("critic"):
            weights.zero_()
    rollout = learner.collect()
    rollout.reward.fill_(0.1)
    return learner, rollout


@pytest.mark.parametrize("mode", ["rollout", "minibatch", "env"])
def test_advantages_that_do_not_vary_become_zeros_and_are_reported(mode: str) -> None:
    """A04."""
    learner, rollout = indifferent(normalize_advantage=mode)
    before = learner.flat.values.clone()
    record = learner.learn(rollout, 1).update
    assert record.zero_std
    assert record.metrics()["warn/zero_spread_advantages"] == 1.0
    moved = (learner.flat.values - before)[learner.flat.slices["output"]]
    assert not moved.any()


@pytest.mark.parametrize("twin", ["none", "heads"])
def test_errors_of_the_critic_are_not_made_as_large_as_real_advantages(twin: str) -> None:
    """A07: returns of spread 1 at first, then all are 0.1, and advantages differ by what the critic gets wrong."""
    learner, rollout = indifferent(critic={"popart": True, "twin": twin})
    rollout.reward.copy_(torch.tensor([1.0, -1.0]).repeat(16, 1))
    learner.learn(rollout, 2)
    rollout.reward.fill_(0.1)
    found = estimated(learner, rollout)
    wrong = found.raw_advantages.std()
    assert 0.0 < wrong < 0.1
    torch.testing.assert_close(found.advantages.std(), wrong / (0.1 * learner.policy.critic.return_std()))


def test_a_flat_env_is_reported_when_each_env_has_its_own_scale() -> None:
    """A04: its rows teach nothing, which somebody should know."""
    learner, rollout = indifferent(normalize_advantage="env")
    rollout.reward[:, 1] = torch.linspace(-1, 1, 16)
    record = learner.learn(rollout, 1).update
    assert record.metrics().get("warn/zero_spread_advantages", 0.0) > 0.0


def test_advantages_that_vary_are_not_reported() -> None:
    (record,) = updates(make_learner(), 1)
    assert not record.zero_std
    assert "warn/zero_spread_advantages" not in record.metrics()


def test_without_normalization_equal_advantages_are_no_warning() -> None:
    learner, rollout = indifferent(normalize_advantage="none")
    assert "warn/zero_spread_advantages" not in learner.learn(rollout, 1).update.metrics()


@every_source
def test_statistics_of_advantages_are_raw_and_over_transitions(source: str) -> None:
    learner = scripted(source)
    rollout = learner.collect()
    raw = estimated(learner, rollout).raw_advantages[rollout.valid].double()
    record = learner.learn(rollout, 1).update
    assert record.advantage_mean == pytest.approx(float(raw.mean()), rel=1e-5)
    assert record.advantage_std == pytest.approx(float(raw.std(correction=0)), rel=1e-5)
    assert (record.advantage_min, record.advantage_max) == pytest.approx((float(raw.min()), float(raw.max())))


@every_source
@pytest.mark.parametrize("clip_range_vf", [None, 0.01])
def test_explained_variance_is_of_the_whole_rollout_before_the_update(source: str, clip_range_vf: float | None) -> None:
    """C11, and value clipping does not enter."""
    learner = scripted(source, clip_range_vf=clip_range_vf)
    rollout = learner.collect()
    found = estimated(learner, rollout)
    values, returns = (x[rollout.valid].double().numpy() for x in (found.values, found.returns))
    record = learner.learn(rollout, 1).update
    assert record.explained_variance == pytest.approx(1 - np.var(returns - values) / np.var(returns), abs=1e-4)


def test_explained_variance_of_constant_returns_is_not_a_number() -> None:
    learner, rollout = indifferent()
    assert math.isnan(learner.learn(rollout, 1).update.explained_variance)


def test_a_perfect_critic_explains_everything_and_a_constant_nothing() -> None:
    learner = scripted("group", gamma=0.0, gae_lambda=0.0)
    rollout = learner.collect()
    rollout.reward = estimated(learner, rollout).values.clone()
    assert estimated(learner, rollout).explained_variance == pytest.approx(1.0)
    learner.flat.named()["critic.output.weight"].zero_()
    learner.flat.named()["critic.output.bias"].fill_(3.0)
    assert estimated(learner, rollout).explained_variance == pytest.approx(0.0, abs=1e-5)


def test_value_clipping_reports_how_often_it_acted() -> None:
    learner = make_learner(clip_range_vf=0.01, learning_rate=1e-2, n_epochs=5)
    (record,) = updates(learner, 1)
    assert 0.0 < record.value_clip_active <= 1.0
    assert record.metrics()["train/value_clip_active"] == record.value_clip_active
    (off,) = updates(make_learner(learning_rate=1e-2, n_epochs=5), 1)
    assert off.value_clip_active == 0.0
    assert "train/value_clip_active" not in off.metrics()


def test_value_clipping_holds_the_critic_back() -> None:
    """Where the clipped loss decides there is no gradient, so the critic stays near its old values."""
    moves = []
    for clip_range_vf in (None, 1e-3):
        learner = make_learner(clip_range_vf=clip_range_vf, learning_rate=1e-3, n_epochs=10)
        rollout = learner.collect()
        old = estimated(learner, rollout).values
        learner.learn(rollout, 1)
        moves.append((estimated(learner, rollout).values - old).abs().mean().item())
    assert moves[1] < 0.5 * moves[0]


def test_whole_returns_are_the_rewards_to_the_end_of_a_finished_episode() -> None:
    """Episodes of four steps in rollouts of six, γ = ½; what comes after a cut is the critic's guess."""
    whole = {"kind": "quantile", "targets": "monte_carlo"}
    learner = make_learner("surefoot/CostlyArm-v0", n_steps=6, batch_size=24, gamma=0.5, gae_lambda=0.3, critic=whole)
    rollout = learner.collect()
    assert finished(rollout).all(1).tolist() == [True] * 4 + [False] * 2
    assert not finished(rollout)[4:].any()
    found, r = estimated(learner, rollout), rollout.reward
    torch.testing.assert_close(found.returns[3], r[3])
    torch.testing.assert_close(found.returns[0], r[0] + 0.5 * r[1] + 0.25 * r[2] + 0.125 * r[3])
    after = learner.policy.critic.mean(predict(rollout, learner.policy)[1])[5]
    torch.testing.assert_close(found.returns[5], r[5] + 0.5 * after)


@pytest.mark.parametrize(("n_steps", "logged"), [(3, False), (5, True)])
def test_calibration_is_of_finished_episodes_only(n_steps: int, logged: bool) -> None:
    """With γ = 0 the return of a step is its reward, 1 or 2: all lie below quantiles that the critic puts at 9."""
    critic = {"kind": "quantile", "popart": False}
    learner = make_learner("surefoot/CostlyArm-v0", n_steps=n_steps, batch_size=4 * n_steps, gamma=0.0, critic=critic)
    with torch.no_grad():
        learner.policy.critic.output.bias.fill_(9.0)  # type: ignore[union-attr, operator]
    metrics = estimated(learner, learner.collect()).metrics
    assert 0.0 < metrics.pop("train/quantile_spread") < 1.0
    assert metrics == ({f"risk/coverage_{level}": 1.0 for level in ("05", "25", "75", "95")} if logged else {})
