"""An update: its ratios, when it stops, and what it does with numbers that are none (P01, P04, P10, O09)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from algo.building import batch_of, gradient_of, iterate, learner_on, make_learner, updates, values_of
from surefoot.algo.learner import Learner
from surefoot.errors import NonFiniteError
from surefoot.rollout.buffer import NO_FINALS, Rollout
from vector.worlds import KINDS, Kind, Scripted, open_envs

INF, NAN = float("inf"), float("nan")

ACTION_SPACES: dict[str, dict[str, Any]] = {
    "discrete": {"env": "surefoot/Identity-v0"},
    "discrete codes": {"env": "surefoot/Identity-v0", "env_kwargs": {"one_hot": False}},
    "multidiscrete": {"env": "surefoot/IdentityMulti-v0"},
    "multibinary": {"env": "surefoot/IdentityBinary-v0"},
    "gaussian": {"env": "surefoot/ContinuousTarget-v0", "env_kwargs": {"n_dims": 3}},
    "gaussian by state": {
        "env": "surefoot/ContinuousTarget-v0",
        "policy": {"hidden_sizes": (16,), "state_dependent_std": True},
    },
    "tanh": {
        "env": "Pendulum-v1",
        "policy": {"hidden_sizes": (16,), "distribution": "tanh_gaussian", "log_std_init": 0.5},
    },
    "beta": {"env": "Pendulum-v1", "policy": {"hidden_sizes": (16,), "distribution": "beta"}},
}


@pytest.mark.parametrize("normalized", [False, True], ids=["raw", "normalized"])
@pytest.mark.parametrize("space", ACTION_SPACES)
def test_ratios_begin_at_one_and_do_not_stay_there(space: str, normalized: bool) -> None:
    """P10."""
    settings = dict(ACTION_SPACES[space])
    normalized = normalized and space != "discrete codes"  # which have nothing to normalize
    learner = make_learner(settings.pop("env"), normalize_observations=normalized, **settings)
    for record in updates(learner, 4):
        assert record.log_ratio_first <= 1e-5
        assert record.log_ratio_max > 1e-4
        assert record.clip_fraction < 1.0


@pytest.mark.parametrize("source", ["group", "next-step"])
@pytest.mark.parametrize("kind", KINDS)
def test_ratios_begin_at_one_on_nested_observations_and_reset_rows(kind: Kind, source: str) -> None:
    envs = open_envs(source, [lambda n=n: Scripted(n, kind=kind) for n in range(2)])  # type: ignore[misc]
    learner = learner_on(envs, n_steps=16, batch_size=8, n_epochs=3, normalize_observations=True)
    for record in updates(learner, 3):
        assert record.log_ratio_first <= 1e-5
        assert record.log_ratio_max > 1e-5


def test_one_minibatch_and_one_epoch_never_leave_one() -> None:
    for record in updates(make_learner(n_epochs=1, batch_size=64), 3):
        assert record.log_ratio_max <= 1e-5
        assert record.clip_fraction == 0.0


STOPPING: dict[str, Any] = {"learning_rate": 0.02, "batch_size": 64, "n_epochs": 20}
TARGET = 0.005


def test_the_update_stops_before_the_step_whose_kl_is_too_large() -> None:
    """P04. With one minibatch an epoch, the policy is that of an update with so many epochs fewer."""
    stopped = make_learner(target_kl=TARGET, **STOPPING)
    (record,) = updates(stopped, 1)
    stop = record.kl_stop
    assert stop is not None
    assert 1 < stop.epoch < 20
    assert stop.minibatch == 0
    assert stop.kl > 1.5 * TARGET
    assert record.kl_last == stop.kl
    assert record.gradient_steps == stop.epoch
    shorter = make_learner(**STOPPING | {"n_epochs": stop.epoch})
    (unstopped,) = updates(shorter, 1)
    assert torch.equal(values_of(stopped), values_of(shorter))
    assert unstopped.kl_stop is None
    assert unstopped.kl_last <= 1.5 * TARGET


def test_a_stop_within_an_epoch_names_the_minibatch() -> None:
    learner = make_learner(target_kl=0.005, learning_rate=0.02, batch_size=8, n_epochs=5)
    (record,) = updates(learner, 1)
    stop = record.kl_stop
    assert stop is not None
    assert record.gradient_steps == 8 * stop.epoch + stop.minibatch
    assert record.gradient_steps > 1
    metrics = record.metrics()
    assert metrics["train/kl_stop_epoch"] == stop.epoch
    assert metrics["train/kl_stop_value"] == stop.kl


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "exact"])
def test_every_estimator_can_stop_an_update(estimator: str) -> None:
    learner = make_learner(target_kl=0.01, kl_estimator=estimator, **STOPPING)
    stops = [record.kl_stop is not None for record in updates(learner, 4)]
    assert any(stops)


def test_the_update_after_a_stopped_one_makes_steps_again() -> None:
    learner = make_learner(target_kl=TARGET, **STOPPING)
    assert all(record.gradient_steps > 0 for record in updates(learner, 3))


def test_without_target_every_epoch_is_made() -> None:
    (record,) = updates(make_learner(**STOPPING), 1)
    assert record.kl_stop is None
    assert record.gradient_steps == 20


def test_a_stop_at_the_very_first_minibatch_is_an_update_all_the_same() -> None:
    """Schedules stand still for numbers that are not finite (O09), not for a policy that has moved enough."""
    learner = make_learner(target_kl=0.02, learning_rate="linear(1e-3, 0)")
    rollout = learner.collect()
    rollout.log_prob -= 3.0
    record = learner.learn(rollout, 4).update
    assert record.kl_stop is not None
    assert (record.kl_stop.epoch, record.kl_stop.minibatch) == (0, 0)
    assert updates(learner, 1, 4)[0].coefficients.learning_rate == pytest.approx(0.75e-3)


@pytest.mark.parametrize("bound", ["clamp", "tanh"])
@pytest.mark.parametrize("stale", [1e3, -1e3, None])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_stale_log_probabilities_do_no_harm(env: str, stale: float | None, bound: str) -> None:
    """P01."""
    learner = make_learner(env, log_ratio_bound=bound)
    for _ in range(3):
        rollout = learner.collect()
        signs = torch.where(torch.arange(64).view(16, 4) % 2 == 0, 1e3, -1e3)
        rollout.log_prob += signs if stale is None else stale
        record = learner.learn(rollout, 3).update
        assert record.skipped_steps == 0
        assert record.bounded_fraction == 1.0
        assert all(value == value for value in record.metrics().values())
        assert torch.isfinite(values_of(learner)).all()
    assert updates(learner, 1)[0].log_ratio_first <= 1e-5


def spoil(rollout: Rollout, bad: float) -> None:
    """Env 1 said something impossible in the fourth step of the rollout."""
    rollout.log_prob[3, 1] = bad


def optimizer_state(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: x.clone() for name, x in learner.optimizer.state_dict().items()}


@pytest.mark.parametrize(
    ("bad", "written", "counts"), [(-INF, "-inf", (0, 2)), (INF, "inf", (0, 2)), (NAN, "nan", (2, 0))]
)
def test_a_step_that_is_not_finite_is_skipped_and_its_source_named(
    bad: float, written: str, counts: tuple[int, int]
) -> None:
    """P01, O09: parameters, Adam and schedules stay as they were."""
    learner = make_learner(batch_size=64, n_epochs=2, learning_rate="linear(1e-3, 0)")
    iterate(learner, 1, 4)
    rollout = learner.collect()
    spoil(rollout, bad)
    before, state = values_of(learner), optimizer_state(learner)
    record = learner.learn(rollout, 4).update
    assert record.skipped_steps == 2
    assert record.gradient_steps == 0
    assert record.non_finite == (f"old log-probability is {written} in env 1 at step 19",) * 2
    assert (record.nan_count, record.inf_count) == counts
    assert torch.equal(values_of(learner), before)
    assert all(torch.equal(x, state[name]) for name, x in learner.optimizer.state_dict().items())
    assert learner.updates == 1
    (healthy,) = updates(learner, 1, 4)
    assert healthy.coefficients.learning_rate == pytest.approx(0.75e-3)
    assert healthy.gradient_steps == 2


def test_skipped_steps_are_in_the_metrics() -> None:
    learner = make_learner(batch_size=64, n_epochs=2)
    rollout = learner.collect()
    spoil(rollout, -INF)
    metrics = learner.learn(rollout, 4).update.metrics()
    assert metrics["error/skipped_steps"] == 2.0
    assert metrics["error/log_ratio_inf"] == 2.0
    assert "error/skipped_steps" not in updates(learner, 1)[0].metrics()


def test_only_the_minibatch_with_the_bad_row_is_skipped() -> None:
    learner = make_learner(batch_size=16, n_epochs=5)
    rollout = learner.collect()
    spoil(rollout, -INF)
    record = learner.learn(rollout, 1).update
    assert record.skipped_steps == 5
    assert record.gradient_steps == 15
    assert float(learner.optimizer.state_dict()["steps"]) == 15
    assert learner.updates == 1
    assert torch.isfinite(values_of(learner)).all()


def test_three_in_a_row_stop_the_run_with_their_sources() -> None:
    learner = make_learner(batch_size=64, n_epochs=10)
    rollout = learner.collect()
    spoil(rollout, -INF)
    before = values_of(learner)
    with pytest.raises(NonFiniteError, match=r"3 optimizer steps in a row.*\n.*in env 1 at step 3"):
        learner.learn(rollout, 1)
    assert torch.equal(values_of(learner), before)


def test_steps_in_a_row_are_counted_over_updates_and_resumes() -> None:
    learner = make_learner(batch_size=64, n_epochs=2)
    rollout = learner.collect()
    spoil(rollout, -INF)
    learner.learn(rollout, 1)
    other = make_learner(batch_size=64, n_epochs=2)
    other.load_state_dict(learner.state_dict())
    for each in (learner, other):
        rollout = each.collect()
        spoil(rollout, -INF)
        with pytest.raises(NonFiniteError, match="3 optimizer steps in a row"):
            each.learn(rollout, 1)


def test_a_good_step_begins_the_count_anew() -> None:
    learner = make_learner(batch_size=64, n_epochs=2)
    for _ in range(3):
        rollout = learner.collect()
        spoil(rollout, -INF)
        assert learner.learn(rollout, 1).update.skipped_steps == 2
        iterate(learner, 1)


def test_how_many_in_a_row_is_a_setting() -> None:
    learner = make_learner(batch_size=64, n_epochs=10, max_nonfinite_updates=10)
    rollout = learner.collect()
    spoil(rollout, -INF)
    with pytest.raises(NonFiniteError, match="10 optimizer steps in a row"):
        learner.learn(rollout, 1)


@pytest.mark.parametrize("reward", [1e25, 3e19])
def test_a_loss_that_overflows_is_no_step(reward: float) -> None:
    """O09: (1e25)² and (3e19)² are beyond float32; of the second the gradient alone is still within."""
    learner = make_learner(batch_size=64, n_epochs=1)
    rollout = learner.collect()
    rollout.terminated[:] = True
    rollout.final = NO_FINALS
    rollout.reward[5, 2] = reward
    if reward < 1e20:
        gradient = gradient_of(learner, batch_of(learner, rollout))
        assert torch.isfinite(gradient.norm())
    before = values_of(learner)
    record = learner.learn(rollout, 1).update
    assert record.skipped_steps == 1
    assert record.non_finite == ("value loss is inf in env 2 at step 5",)
    assert torch.equal(values_of(learner), before)


@pytest.mark.parametrize("part", ["critic.output.weight", "value_encoder.trunk.layers.0.bias"])
def test_a_critic_that_is_not_finite_is_found_before_the_update(part: str) -> None:
    learner = make_learner()
    rollout = learner.collect()
    learner.flat.named()[part].fill_(NAN)
    with pytest.raises(NonFiniteError, match="value is nan in env 0 at step 0"):
        learner.learn(rollout, 1)
