"""A learner is decided by its seed, and what it saves is all that it is (Y02, Y05)."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from algo.building import iterate, learner_on, make_learner, updates, values_of
from surefoot.algo.learner import Learner
from surefoot.algo.trainer_state import TrainerState
from surefoot.errors import ConfigError, SurefootError
from surefoot.worlds import ENTRY_POINTS
from vector.worlds import SOURCES, Scripted, open_envs

ENVS = [
    "CartPole-v1",
    "Pendulum-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    *sorted(ENTRY_POINTS),
]
EVERYTHING: dict[str, Any] = {
    "normalize_observations": True,
    "normalize_rewards": True,
    "learning_rate": "linear(1e-2, 0)",
    "ent_coef": "decay(0.1, 0.01, 8)",
    "clip_range_vf": 0.2,
    "target_kl": 0.05,
    "optimizer": "adamw",
    "weight_decay": 0.01,
}


def through_json(state: TrainerState) -> TrainerState:
    """As it comes back from a file."""
    tensors = {name: x.clone() for name, x in state.tensors.items()}
    return TrainerState(tensors, json.loads(json.dumps(state.values)), state.exact)


def assert_equal_states(left: TrainerState, right: TrainerState) -> None:
    assert left.tensors.keys() == right.tensors.keys()
    for name, x in left.tensors.items():
        assert torch.equal(x, right.tensors[name]), name
    assert json.dumps(left.values) == json.dumps(right.values)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "surefoot/IdentityMulti-v0"])
def test_equal_seeds_learn_bit_for_bit_the_same(env: str) -> None:
    one, two = (make_learner(env, seed=5) for _ in range(2))
    assert_records_equal(updates(one, 3), updates(two, 3))
    assert_equal_states(one.state_dict(), two.state_dict())


def assert_records_equal(left: list[Any], right: list[Any]) -> None:
    for one, two in zip(left, right, strict=True):
        assert json.dumps(one.metrics()) == json.dumps(two.metrics())


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "surefoot/IdentityMulti-v0"])
def test_other_seeds_start_elsewhere_and_see_something_else(env: str) -> None:
    one, two = (make_learner(env, seed=seed) for seed in (5, 6))
    assert not torch.equal(values_of(one), values_of(two))
    assert not torch.equal(one.collect().observation["obs"], two.collect().observation["obs"])


@pytest.mark.parametrize("source", SOURCES)
def test_equal_seeds_learn_the_same_on_every_kind_of_env(source: str) -> None:
    found = []
    for _ in range(2):
        envs = open_envs(source, [lambda n=n: Scripted(n) for n in range(2)])  # type: ignore[misc]
        learner = learner_on(envs, n_steps=16, batch_size=16)
        iterate(learner, 2)
        found.append(values_of(learner))
    assert torch.equal(found[0], found[1])


@pytest.mark.parametrize("env", ENVS)
def test_a_learner_cut_in_mid_run_goes_on_bit_for_bit(env: str) -> None:
    """Y02."""
    learner = make_learner(env, **EVERYTHING)
    iterate(learner, 2, 6)
    saved = learner.state_dict()
    assert saved.exact
    expected = updates(learner, 3, 6)
    other = make_learner(env, **EVERYTHING)
    other.load_state_dict(through_json(saved))
    assert_records_equal(updates(other, 3, 6), expected)
    assert_equal_states(other.state_dict(), learner.state_dict())


def test_a_learner_saved_before_it_began_begins_the_same() -> None:
    learner = make_learner(**EVERYTHING)
    other = make_learner(**EVERYTHING | {"seed": 3})
    other.load_state_dict(through_json(learner.state_dict()))
    # Envs are started by the seed of the settings, all else is loaded.
    assert torch.equal(values_of(other), values_of(learner))
    again = make_learner(**EVERYTHING)
    again.load_state_dict(through_json(learner.state_dict()))
    iterate(again, 2)
    iterate(learner, 2)
    assert_equal_states(again.state_dict(), learner.state_dict())


def test_a_learner_in_use_can_be_put_back() -> None:
    learner = make_learner(**EVERYTHING)
    iterate(learner, 2, 6)
    saved = through_json(learner.state_dict())
    expected = updates(learner, 2, 6)
    learner.load_state_dict(saved)
    assert_records_equal(updates(learner, 2, 6), expected)


def test_a_learner_in_use_can_be_put_back_to_before_it_began() -> None:
    """Its envs begin anew: nothing goes on in the middle of an episode whose first half is not known any more."""
    settings = EVERYTHING | {"risk": {"kind": "cvar_constraint", "alpha": 0.5, "limit_per_episode": 0.0}}
    fresh, used = (make_learner("surefoot/CostlyArm-v0", n_steps=6, batch_size=24, **settings) for _ in range(2))
    iterate(used, 3, total=4)
    used.load_state_dict(fresh.state_dict())
    iterate(fresh, 2, total=4)
    iterate(used, 2, total=4)
    assert torch.equal(values_of(used), values_of(fresh))


def test_a_saved_state_is_a_copy() -> None:
    learner = make_learner(**EVERYTHING)
    iterate(learner, 1)
    saved = learner.state_dict()
    kept = through_json(saved)
    iterate(learner, 2)
    assert_equal_states(saved, kept)


@pytest.mark.filterwarnings("ignore:an update rests on about")
@pytest.mark.parametrize("before", [0, 2], ids=["first", "third"])
def test_estimating_changes_nothing(before: int) -> None:
    """What must move before is moved by `_observe` and `_set_first_unit`, what moves after by `_advance`."""
    risk = {"kind": "cvar_constraint", "alpha": 0.5, "limit_per_episode": 0.0}
    critic = {"kind": "quantile", "popart": True, "clip_mode": "mean_only"}
    learner = make_learner("surefoot/CostlyArm-v0", **EVERYTHING | {"risk": risk, "critic": critic})
    iterate(learner, before, total=4)
    rollout = learner.collect()
    learner._observe(rollout, 0.1)
    state = through_json(learner.state_dict())
    learner._estimate(rollout)
    assert_equal_states(learner.state_dict(), state)


def test_saving_changes_nothing() -> None:
    plain, saving = (make_learner(**EVERYTHING) for _ in range(2))
    for learner in (plain, saving):
        for _ in range(3):
            iterate(learner, 1, 3)
            if learner is saving:
                learner.state_dict()
    assert_equal_states(plain.state_dict(), saving.state_dict())


def saved_learner(**settings: Any) -> TrainerState:
    learner = make_learner(**EVERYTHING | settings)
    iterate(learner, 1)
    return learner.state_dict()


NAMES = sorted(saved_learner().tensors)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_tensor_is_an_error(name: str) -> None:
    """Y05."""
    saved = saved_learner()
    rest = {key: x for key, x in saved.tensors.items() if key != name}
    other = make_learner(**EVERYTHING)
    if name.startswith("collector/"):  # of the open episodes, which are then given up, and that is said
        other.load_state_dict(TrainerState(rest, saved.values, saved.exact))
        assert other.resumed is not None
        assert not other.resumed.exact
        assert name.removeprefix("collector/") in other.resumed.reason
        return
    with pytest.raises((SurefootError, KeyError), match=re.escape(name.rpartition("/")[2])):
        other.load_state_dict(TrainerState(rest, saved.values, saved.exact))


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("generator/")])
def test_a_tensor_of_another_shape_is_an_error(name: str) -> None:
    """Y05: one number must not be spread over many."""
    saved = saved_learner()
    wrong = torch.zeros((1, 1), dtype=saved.tensors[name].dtype)
    other = make_learner(**EVERYTHING)
    if name.startswith("collector/"):  # of the open episodes
        other.load_state_dict(TrainerState(saved.tensors | {name: wrong}, saved.values, saved.exact))
        assert other.resumed is not None
        assert not other.resumed.exact
        iterate(other, 1)
        return
    with pytest.raises((SurefootError, RuntimeError, ValueError), match=r"shape|size"):
        other.load_state_dict(TrainerState(saved.tensors | {name: wrong}, saved.values, saved.exact))


@pytest.mark.parametrize(("n_envs", "saved_envs"), [(2, 4), (4, 2)])
def test_a_state_of_another_number_of_envs_goes_on_with_new_episodes(n_envs: int, saved_envs: int) -> None:
    saved = saved_learner(n_envs=saved_envs)
    other = make_learner(**EVERYTHING | {"n_envs": n_envs})
    other.load_state_dict(saved)
    assert other.resumed == (False, f"it was saved with {saved_envs} envs, here are {n_envs}")
    iterate(other, 2)
    assert torch.isfinite(values_of(other)).all()


def unknown_envs(**settings: Any) -> Learner:
    envs = open_envs("next-step", [lambda n=n: Scripted(n) for n in range(2)])  # type: ignore[misc]
    return learner_on(envs, n_steps=16, batch_size=16, **settings)


def test_envs_that_cannot_be_saved_start_new_episodes() -> None:
    learner = unknown_envs(normalize_rewards=True)
    iterate(learner, 2)
    saved = learner.state_dict()
    assert not saved.exact
    other = unknown_envs(normalize_rewards=True)
    other.load_state_dict(through_json(saved))
    assert torch.equal(values_of(other), values_of(learner))
    assert other.timesteps == learner.timesteps
    iterate(other, 1)
    summary = other.collector.episodes.summary()
    assert summary["rollout/ep_len_mean"] <= 6.0  # no episode was glued to a lost one


def test_lost_episodes_leave_nothing_in_the_reward_normalizer() -> None:
    """The discounted return of an open episode belongs to it; a new episode begins at 0."""
    learner = unknown_envs(normalize_rewards=True)
    iterate(learner, 2)
    assert learner.rewards is not None
    assert learner.rewards.running.any()
    other = unknown_envs(normalize_rewards=True)
    other.load_state_dict(through_json(learner.state_dict()))
    assert other.rewards is not None
    assert not other.rewards.running.any()


def global_states() -> tuple[Tensor, Any]:
    return torch.get_rng_state(), np.random.get_state()  # noqa: NPY002 # the global stream is what is looked at


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_training_does_not_touch_the_global_random_streams(env: str) -> None:
    before = global_states()
    learner = make_learner(env, **EVERYTHING)
    built = global_states()
    iterate(learner, 2)
    after = global_states()
    assert all(np.array_equal(a, b) for a, b in zip(built[1], after[1], strict=True))
    assert torch.equal(built[0], after[0])
    assert all(np.array_equal(a, b) for a, b in zip(before[1], built[1], strict=True))
    assert torch.equal(before[0], built[0])


def test_the_global_random_streams_do_not_touch_training() -> None:
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 # the global stream is what is looked at
        learner = make_learner(**EVERYTHING)
        iterate(learner, 2)
        found.append(values_of(learner))
    assert torch.equal(found[0], found[1])


def test_shuffling_and_acting_have_streams_of_their_own() -> None:
    """More epochs shuffle more and must not change which actions the same policy draws."""
    few, many = (make_learner(n_epochs=n, learning_rate=0.0) for n in (1, 5))
    for _ in range(3):
        left, right = few.collect(), many.collect()
        assert torch.equal(left.action, right.action)
        assert torch.equal(left.observation["obs"], right.observation["obs"])
        few.learn(left, 3)
        many.learn(right, 3)


def test_steps_and_updates_are_counted() -> None:
    learner = make_learner()
    records = iterate(learner, 3)
    assert learner.timesteps == 3 * 64
    assert learner.updates == 3
    assert [record.timesteps for record in records] == [64] * 3
    assert [record.update.update for record in records] == [0, 1, 2]


def test_a_small_world_is_learned() -> None:
    """Arm 1 pays four times as often; most of the way from even odds is gone within twelve updates."""
    learner = make_learner("surefoot/Bandit-v0", n_epochs=4, learning_rate=2e-2, batch_size=32)
    iterate(learner, 12)
    logits = learner.policy.action_parameters({"obs": torch.zeros(1, 1)})[0]
    assert torch.softmax(logits, 0)[1] > 0.9


INERT: dict[str, dict[str, Any]] = {
    "convolutions without image": {"policy": {"cnn_channels": (8, 8)}},
    "features of convolutions without image": {"policy": {"cnn_features": 64}},
    "activation without hidden layer": {"policy": {"hidden_sizes": (), "activation": "relu"}},
    "norm without hidden layer": {"policy": {"hidden_sizes": (), "layer_norm": True}},
    "distribution of reals for a choice": {"policy": {"distribution": "beta"}},
    "spread of a choice": {"policy": {"log_std_init": -1.0}},
    "spread by state of a choice": {"policy": {"state_dependent_std": True}},
}


@pytest.mark.parametrize("settings", INERT.values(), ids=INERT.keys())
def test_an_option_that_cannot_take_effect_is_refused(settings: dict[str, Any]) -> None:
    """P12."""
    with pytest.raises(ConfigError):
        make_learner("CartPole-v1", **settings)
