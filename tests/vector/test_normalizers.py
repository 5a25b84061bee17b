"""Observations and rewards in units that networks like, without lying to the update (A07, M06)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import Env, spaces

from algo.building import estimates_of, iterate, learner_on, make_learner, values_of
from surefoot import PPO
from surefoot.algo.learner import Learner
from surefoot.errors import ConfigError
from surefoot.spaces import Layout
from surefoot.vector.normalize import ObservationNormalizer, RewardNormalizer
from surefoot.workers.envs import WorkerEnvs
from vector.worlds import BASE, SOURCES, Ending, Scripted, Ticking, open_envs

Array = np.ndarray[Any, Any]
LINE = Layout.of(spaces.Box(-np.inf, np.inf, (2,), np.float32))
ALL = np.ones(2, np.bool_)


def rows(*numbers: Sequence[float]) -> dict[str, Array]:
    return {"obs": np.array(numbers, np.float32)}


def after_a_rollout(normalizer: ObservationNormalizer, *numbers: Sequence[float]) -> ObservationNormalizer:
    """The first rollout is over; it showed these rows."""
    normalizer.update(rows(*numbers), np.ones(len(numbers), np.bool_))
    normalizer.finish_rollout()
    return normalizer


def test_observations_are_standardized_by_what_was_acted_upon() -> None:
    normalizer = ObservationNormalizer(LINE, 10.0)
    normalizer.update(rows([0.0, 10.0], [4.0, 30.0], [1e6, 1e6]), np.array([True, True, False]))
    # mean (2, 20), standard deviation (2, 10)
    assert normalizer(rows([4.0, 20.0]))["obs"].tolist() == [[1.0, 0.0]]


def test_normalized_observations_are_clipped() -> None:
    normalizer = after_a_rollout(ObservationNormalizer(LINE, 3.0), [0.0, 10.0], [4.0, 30.0])
    assert normalizer(rows([1e9, -1e9]))["obs"].tolist() == [[3.0, -3.0]]


def test_the_observation_given_is_not_changed() -> None:
    normalizer = after_a_rollout(ObservationNormalizer(LINE, 10.0), [0.0, 10.0], [4.0, 30.0])
    given = rows([4.0, 20.0])
    normalizer(given)
    assert given["obs"].tolist() == [[4.0, 20.0]]


def test_statistics_are_frozen_until_the_update_is_over() -> None:
    normalizer = after_a_rollout(ObservationNormalizer(LINE, 10.0), [0.0, 10.0], [4.0, 30.0])
    before = normalizer(rows([1.0, 1.0]))["obs"].copy()
    for k in range(5):
        normalizer.update(rows([100.0 + k, -50.0], [7.0, k]), ALL)
        assert np.array_equal(normalizer(rows([1.0, 1.0]))["obs"], before)
    normalizer.finish_rollout()
    assert not np.array_equal(normalizer(rows([1.0, 1.0]))["obs"], before)


def test_statistics_may_follow_every_step() -> None:
    normalizer = after_a_rollout(ObservationNormalizer(LINE, 10.0, follows=True), [0.0, 10.0], [4.0, 30.0])
    normalizer.update(rows([8.0, 50.0], [0.0, 0.0]), ALL)
    seen = np.array([[0, 10], [4, 30], [8, 50], [0, 0]])
    assert normalizer.moments["obs"].mean.numpy() == pytest.approx(seen.mean(0))
    drift = normalizer.finish_rollout()  # means go from (2, 20) to (3, 22.5), in the standard deviations 2 and 10
    assert drift.mean == pytest.approx(0.5)
    again = ObservationNormalizer(LINE, 10.0, follows=True)
    again.load_state_dict(normalizer.state_dict())
    again.update(rows([1.0, 1.0], [1.0, 1.0]), ALL)
    assert float(again.moments["obs"].count) == 6


def test_frozen_rollouts_count_as_much_as_the_first() -> None:
    normalizer = after_a_rollout(ObservationNormalizer(LINE, 10.0), [0.0, 10.0], [4.0, 30.0])
    normalizer.update(rows([8.0, 50.0], [1e6, 1e6]), np.array([True, False]))
    normalizer.update(rows([0.0, 0.0], [12.0, 60.0]), ALL)
    normalizer.finish_rollout()
    seen = np.array([[0, 10], [4, 30], [8, 50], [0, 0], [12, 60]])
    assert normalizer.moments["obs"].mean.numpy() == pytest.approx(seen.mean(0))
    assert normalizer.moments["obs"].std.numpy() == pytest.approx(seen.std(0))


def test_drift_is_how_far_the_means_moved_in_old_standard_deviations() -> None:
    normalizer = after_a_rollout(ObservationNormalizer(LINE, 10.0), [0.0, 10.0], [4.0, 30.0])
    assert normalizer.finish_rollout() == (0.0, 0.0)
    normalizer.update(rows([8.0, 20.0], [8.0, 20.0]), ALL)
    # Means go from (2, 20) to (5, 20), standard deviations from (2, 10) to (√11, √50): 1.658 and 0.707 of the old ones.
    assert normalizer.finish_rollout() == pytest.approx((1.5, math.sqrt(11) / 2 - 1))


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e6, 1e-12, 3.3e7])
def test_a_feature_that_never_varies_stays_near_zero(constant: float) -> None:
    normalizer = ObservationNormalizer(LINE, 10.0)
    rng = np.random.default_rng(0)
    for k in range(40):
        normalizer.update(rows([constant, rng.normal()], [constant, rng.normal()]), ALL)
        if k % 8 == 7:
            normalizer.finish_rollout()
    assert normalizer(rows([constant, 0.0]))["obs"][0, 0] == pytest.approx(0.0, abs=1e-6)
    assert np.isfinite(normalizer(rows([constant * 1.001 + 1.0, 0.0]))["obs"]).all()


@pytest.mark.parametrize("unit", [1e-10, 1e-4, 1.0, 1e4, 1e10])
def test_the_unit_of_a_feature_does_not_matter(unit: float) -> None:
    normalizer = after_a_rollout(ObservationNormalizer(LINE, 10.0), [0.0, 0.0], [4.0 * unit, 1.0])
    assert normalizer(rows([4.0 * unit, 0.0]))["obs"][0, 0] == pytest.approx(1.0, rel=1e-5)


def test_only_float_leaves_are_normalized() -> None:
    space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (16, 16, 3), np.uint8),
            "kind": spaces.Discrete(4),
            "place": spaces.Box(-9, 9, (1,), np.float32),
        }
    )
    layout = Layout.of(space)
    normalizer = ObservationNormalizer(layout, 10.0)
    leaves = layout.empty(2) | {"kind": np.array([1, 3]), "place": np.array([[2.0], [4.0]], np.float32)}
    leaves["image"][:] = 200
    normalizer.update(leaves, ALL)
    out = normalizer(leaves)
    assert out["place"].tolist() == [[-1.0], [1.0]]
    assert out["kind"].tolist() == [1, 3]
    assert out["image"].dtype == np.uint8
    assert (out["image"] == 200).all()


@pytest.mark.parametrize("source", SOURCES)
def test_a_scalar_observation_can_be_normalized_and_truncated(source: str) -> None:
    class Thermometer(Env[Any, Any]):
        observation_space = spaces.Box(-50.0, 50.0, (), np.float32)
        action_space = spaces.Discrete(2)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed, options=options)
            return self._read(), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            observation = self._read()
            return observation, 1.0, False, bool(observation > 5.0), {}

        def _read(self) -> Any:
            return np.array(self.np_random.normal(0.0, 10.0), np.float32)

    learner = learner_on(open_envs(source, [Thermometer] * 2), n_steps=32, batch_size=64, normalize_observations=True)
    iterate(learner, 2)
    assert learner.observations is not None
    assert float(learner.observations.moments["obs"].std) == pytest.approx(10.0, rel=0.4)


def test_what_the_policy_saw_is_what_the_update_learns_from() -> None:
    """Stored observations give the stored log-probabilities, also in the first rollout (M06, P10)."""
    learner = make_learner("Pendulum-v1", n_steps=32, normalize_observations=True)
    for _ in range(3):
        rollout = learner.collect()
        saw = {name: x[:-1].flatten(0, 1) for name, x in rollout.observation.items()}
        with torch.no_grad():
            bound = learner.family.bind(learner.policy.action_parameters(saw))
        assert torch.allclose(bound.log_prob(rollout.action.flatten(0, 1)), rollout.log_prob.flatten(), atol=1e-5)
        assert rollout.observation["obs"].abs().max() <= learner.config.ppo.observation_clip
        learner.learn(rollout, 3)


def test_rollouts_after_the_first_see_one_scale() -> None:
    learner = make_learner("Pendulum-v1", n_steps=32, normalize_observations=True)
    iterate(learner, 1)
    assert learner.observations is not None
    frozen = learner.observations(learner.collector.pending or {})["obs"].copy()
    pending = {name: array.copy() for name, array in (learner.collector.pending or {}).items()}
    rollout = learner.collect()
    assert np.array_equal(rollout.observation["obs"][0].numpy(), frozen)
    assert np.array_equal(learner.observations(pending)["obs"], frozen)
    record = learner.learn(rollout, 2)
    assert not np.array_equal(learner.observations(pending)["obs"], frozen)
    assert record.metrics["train/observation_mean_drift"] > 0.0
    assert record.metrics["train/observation_std_drift"] > 0.0


def test_statistics_of_observations_survive_saving() -> None:
    normalizer = after_a_rollout(ObservationNormalizer(LINE, 10.0), [0.0, 10.0], [4.0, 30.0])
    twin = ObservationNormalizer(LINE, 10.0)
    twin.load_state_dict({name: x.clone() for name, x in normalizer.state_dict().items()})
    for each in (normalizer, twin):
        each.update(rows([8.0, 0.0], [9.0, 5.0]), ALL)
    assert np.array_equal(normalizer(rows([1.0, 1.0]))["obs"], twin(rows([1.0, 1.0]))["obs"])
    assert normalizer.finish_rollout() == twin.finish_rollout()
    assert np.array_equal(normalizer(rows([1.0, 1.0]))["obs"], twin(rows([1.0, 1.0]))["obs"])


def test_normalizing_observations_without_float_leaf_is_refused() -> None:
    """An option that cannot take effect is an error (P12)."""
    with pytest.raises(ConfigError, match="normalize_observations"):
        make_learner("surefoot/Identity-v0", env_kwargs={"one_hot": False}, normalize_observations=True)


def update_statistics(normalizer: RewardNormalizer, reward: Any, done: Any = None, valid: Any = None) -> None:
    given = torch.as_tensor(reward, dtype=torch.float32)
    dones = torch.zeros(given.shape, dtype=torch.bool) if done is None else torch.as_tensor(done)
    rows_that_count = torch.ones(given.shape, dtype=torch.bool) if valid is None else torch.as_tensor(valid)
    normalizer.update_statistics(given, dones, rows_that_count)


def test_rewards_are_divided_by_the_spread_of_the_discounted_return() -> None:
    normalizer = RewardNormalizer(1, 0.5, 10.0)
    update_statistics(normalizer, [[1.0], [1.0], [4.0], [2.0]], [[False], [False], [True], [False]])
    # Discounted returns 1, 1.5, 4.75, and after the end 2.
    assert normalizer.scale == pytest.approx(np.std([1.0, 1.5, 4.75, 2.0]))
    assert normalizer(torch.tensor([3.0])).item() == pytest.approx(3.0 / normalizer.scale)


def test_the_discounted_return_runs_on_over_rollouts() -> None:
    whole, halves = RewardNormalizer(2, 0.9, 10.0), RewardNormalizer(2, 0.9, 10.0)
    rng = np.random.default_rng(1)
    reward, done, valid = rng.normal(size=(20, 2)), rng.random((20, 2)) < 0.2, rng.random((20, 2)) < 0.8
    done &= valid
    update_statistics(whole, reward, done, valid)
    for half in (slice(0, 10), slice(10, 20)):
        update_statistics(halves, reward[half], done[half], valid[half])
    assert halves.scale == pytest.approx(whole.scale, rel=1e-12)
    assert torch.equal(halves.running, whole.running)


def test_rewards_are_not_shifted_but_clipped() -> None:
    normalizer = RewardNormalizer(1, 0.0, 2.0)
    update_statistics(normalizer, [[9.0], [11.0]])
    assert normalizer(torch.tensor([0.0, 1.0, 100.0, -100.0])).tolist() == [0.0, 1.0, 2.0, -2.0]


@pytest.mark.parametrize("constant", [0.0, 1.0, -1e6, 1e-6, 0.1])
@pytest.mark.parametrize("ends", [True, False])
def test_constant_rewards_do_not_explode(constant: float, ends: bool) -> None:
    normalizer = RewardNormalizer(3, 0.99, 10.0)
    for _ in range(20):
        update_statistics(normalizer, np.full((50, 3), constant), np.full((50, 3), ends))
    assert normalizer(torch.tensor([constant])).abs().item() <= 1.0 + 1e-6


def test_statistics_of_rewards_survive_saving() -> None:
    normalizer, twin = RewardNormalizer(2, 0.9, 10.0), RewardNormalizer(2, 0.9, 10.0)
    rng = np.random.default_rng(1)
    update_statistics(normalizer, rng.normal(size=(20, 2)))
    twin.load_state_dict({name: x.clone() for name, x in normalizer.state_dict().items()})
    more = rng.normal(size=(20, 2))
    update_statistics(normalizer, more)
    update_statistics(twin, more)
    assert twin.scale == normalizer.scale
    assert torch.equal(twin.running, normalizer.running)


def trained(scale: float, **settings: Any) -> torch.Tensor:
    script = (Ending(5, True, False), Ending(7, False, True), Ending(2, True, False))
    factories = [partial(Scripted, n, script, reward_scale=scale) for n in range(4)]
    learner = learner_on(
        open_envs("group", factories), n_steps=16, batch_size=16, n_epochs=4, learning_rate=1e-2, **settings
    )
    iterate(learner, 6)
    return values_of(learner)


def test_rewards_in_other_units_of_a_power_of_two_train_to_the_same_bits() -> None:
    assert torch.equal(trained(1.0, normalize_rewards=True), trained(2.0**20, normalize_rewards=True))


@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_rewards_in_other_units_train_as_well(scale: float) -> None:
    reference = trained(1.0, normalize_rewards=True)
    assert torch.allclose(trained(scale, normalize_rewards=True), reference, atol=1e-3)
    assert not torch.allclose(trained(scale), reference, atol=1e-1)


def test_the_scale_of_rewards_is_one_number_per_rollout() -> None:
    learner = learner_on(
        open_envs("group", [partial(Scripted, n) for n in range(2)]),
        n_steps=16,
        batch_size=32,
        gamma=0.0,
        gae_lambda=0.0,
        normalize_rewards=True,
        normalize_advantage="none",
    )
    assert learner.rewards is not None
    for _ in range(3):
        rollout = learner.collect()
        estimates = estimates_of(learner, rollout)
        # With gamma 0 the return is the scaled reward itself.
        assert torch.allclose(estimates.returns, rollout.reward / learner.rewards.scale, atol=1e-5)


@pytest.mark.parametrize(
    ("source", "dtype"), [*((source, np.float64) for source in SOURCES), ("workers", np.float64), ("group", np.int64)]
)
def test_what_only_float64_tells_apart_reaches_the_policy(source: str, dtype: Any) -> None:
    factory = partial(Ticking, dtype)
    envs = WorkerEnvs(factory, 2, 1) if source == "workers" else open_envs(source, [factory, factory])
    learner = learner_on(envs, n_steps=24, batch_size=24, normalize_observations=True)
    assert learner.observations is not None
    iterate(learner, 1)
    rollout = learner.collect()
    moments = learner.observations.moments["obs"]
    mean, std = moments.mean.item(), moments.std.item()
    low, high = (BASE - mean) / std, (BASE + 10 - mean) / std
    assert (low, high) == pytest.approx((-1.0, 1.0), abs=0.2)
    seen = rollout.observation["obs"]
    assert seen.dtype == torch.float32
    acted = seen[:-1][rollout.valid].numpy()
    assert np.minimum(abs(acted - low), abs(acted - high)).max() < 1e-6
    assert set(np.sign(acted).ravel()) == {-1.0, 1.0}
    assert len(rollout.final) >= 2 * 3
    final, _ = rollout.final_batch()
    assert final["obs"].dtype == torch.float32
    assert final["obs"].numpy() == pytest.approx(low, abs=1e-6)
    envs.close()


def test_a_time_of_day_is_normalized_to_one_standard_deviation() -> None:
    normalizer = ObservationNormalizer(Layout.of(spaces.Box(-np.inf, np.inf, (1,), np.float64)), 10.0)
    both = {"obs": np.array([[BASE], [BASE + 10]])}
    normalizer.update(both, ALL)
    normalizer.finish_rollout()
    found = normalizer(both)["obs"]
    assert found.dtype == np.float32
    assert found == pytest.approx(np.array([[-1.0], [1.0]]), abs=1e-6)
    assert normalizer({"obs": np.array([[1e60]])})["obs"].tolist() == [[10.0]]


@pytest.mark.parametrize("constant", [0.1, 1.7e9, -1e15, 1e-12])
def test_a_float64_feature_that_never_varies_stays_near_zero(constant: float) -> None:
    normalizer = ObservationNormalizer(Layout.of(spaces.Box(-np.inf, np.inf, (1,), np.float64)), 10.0)
    for k in range(200):
        normalizer.update({"obs": np.full((3, 1), constant)}, np.ones(3, np.bool_))
        if k % 8 == 7:
            normalizer.finish_rollout()
    assert abs(normalizer({"obs": np.array([[constant]])})["obs"].item()) < 1e-6


def test_a_policy_learns_predicts_and_is_evaluated_by_what_only_float64_tells_apart() -> None:
    """The right action is the parity of the tick; six steps pay 6 to who sees it, 3 to who does not."""
    settings: dict[str, Any] = {"n_steps": 40, "batch_size": 40, "n_epochs": 4, "learning_rate": 3e-3}
    agent = PPO(Ticking, n_envs=4, compile=False, normalize_observations=True, gamma=0.0, **settings).learn(1600)
    assert agent.evaluate(8).mean == 6.0
    assert [int(agent.predict([x], deterministic=True)[0]) for x in (BASE, BASE + 10)] == [0, 1]


def test_an_open_episode_goes_on_in_float64() -> None:
    def learner() -> Learner:
        return learner_on(open_envs("group", [Ticking] * 2), n_steps=7, batch_size=14, normalize_observations=True)

    saved, loaded = learner(), learner()
    iterate(saved, 1)
    tensors, values = saved.collector.save()
    assert tensors["pending/obs"].tolist() == [[BASE + 10]] * 2
    for dtype in (torch.float64, torch.float32):  # the latter is what older versions kept
        loaded.collector.reopen({"pending/obs": tensors["pending/obs"].to(dtype)}, values)
        assert loaded.collector.pending is not None
        assert loaded.collector.pending["obs"].dtype == np.float64
