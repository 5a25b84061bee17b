"""`predict`: one observation or many, any space, masks, and errors that say what was expected."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from surefoot import PPO
from surefoot.errors import SurefootError
from surefoot.spaces import Array
from train.agents import Random, dict_space, image_space, small


@pytest.fixture(scope="module")
def cartpole() -> PPO:
    return small().learn(64)


@pytest.fixture
def observation() -> Array:
    return np.array([0.1, -0.2, 0.03, 0.4], np.float32)


def test_one_observation_gives_one_action(cartpole: PPO, observation: Array) -> None:
    action, state = cartpole.predict(observation)
    assert np.shape(action) == ()
    assert gymnasium.make("CartPole-v1").action_space.contains(action)
    assert state is None


def test_a_batch_gives_a_batch(cartpole: PPO, observation: Array) -> None:
    actions, _ = cartpole.predict(np.tile(observation, (5, 1)))
    assert actions.shape == (5,)


def test_one_and_many_agree(cartpole: PPO) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 4))
    many, _ = cartpole.predict(rows, deterministic=True)
    assert many.tolist() == [int(cartpole.predict(row, deterministic=True)[0]) for row in rows]


@pytest.mark.parametrize("kind", [list, np.asarray, torch.as_tensor])
def test_observations_may_be_lists_arrays_or_tensors(cartpole: PPO, observation: Array, kind: Any) -> None:
    expected, _ = cartpole.predict(observation, deterministic=True)
    assert cartpole.predict(kind(observation.tolist()), deterministic=True)[0] == expected


def test_deterministic_actions_are_the_likeliest(cartpole: PPO, observation: Array) -> None:
    likeliest = int(cartpole.learner.policy.action_parameters({"obs": torch.from_numpy(observation[None])}).argmax())
    assert {int(cartpole.predict(observation, deterministic=True)[0]) for _ in range(5)} == {likeliest}
    assert set(cartpole.predict(np.tile(observation, (200, 1)))[0].tolist()) == {0, 1}


def test_continuous_actions_stay_within_the_space() -> None:
    agent = small("Pendulum-v1", policy={"log_std_init": 2.0}).learn(32)
    actions, _ = agent.predict(np.zeros((200, 3)))
    assert actions.shape == (200, 1)
    assert actions.dtype == np.float32
    assert np.abs(actions).max() == 2.0


def test_dict_observations_come_as_dicts() -> None:
    agent = small(lambda: Random(dict_space())).learn(32)
    one, _ = agent.predict({"numbers": [0.1, 0.2], "kind": 2})
    many, _ = agent.predict({"numbers": np.zeros((4, 2)), "kind": np.array([0, 1, 2, 0])})
    assert np.shape(one) == ()
    assert many.shape == (4,)


def test_a_category_alone_is_one_observation() -> None:
    agent = small(lambda: Random(spaces.Discrete(4))).learn(32)
    assert np.shape(agent.predict(3)[0]) == ()
    assert agent.predict(np.array([0, 1, 2]))[0].shape == (3,)


def test_images_come_as_they_are() -> None:
    agent = small(lambda: Random(image_space()), policy={"cnn_channels": (4,), "cnn_features": 8})
    assert np.shape(agent.predict(np.zeros((12, 12, 3), np.uint8))[0]) == ()
    assert agent.predict(np.zeros((2, 12, 12, 3), np.uint8))[0].shape == (2,)


def test_predictions_use_the_normalizer() -> None:
    agent = small(lambda: Random(spaces.Box(-1000.0, 1000.0, (3,), np.float32)), normalize_observations=True).learn(64)
    raw = np.array([[500.0, -300.0, 100.0]], np.float32)
    assert agent.learner.observations is not None
    seen = torch.from_numpy(agent.learner.observations({"obs": raw})["obs"])
    expected = agent.learner.policy.action_parameters({"obs": seen}).argmax(-1)
    assert agent.predict(raw, deterministic=True)[0].tolist() == expected.tolist()
    assert seen.abs().max() < 5.0


def wide() -> Random:
    return Random(spaces.Box(-1e5, 1e5, (3,), np.float64))


def test_a_number_beyond_float32_is_named_unless_it_is_normalized() -> None:
    with pytest.raises(SurefootError, match=r"observation 'obs' holds 1e\+60, beyond float32.*normalize_observations"):
        small(wide).predict([0.0, 1e60, 0.0])
    agent = small(wide, normalize_observations=True).learn(32)
    assert np.shape(agent.predict([0.0, 1e60, 0.0])[0]) == ()
    with pytest.raises(SurefootError, match=r"holds 1e\+300, beyond 1e\+100"):
        agent.predict([0.0, 1e300, 0.0])


@pytest.mark.parametrize("memory", [{}, {"kind": "gru", "hidden_size": 8}], ids=["none", "gru"])
def test_float64_observations_need_no_normalizer(memory: dict[str, Any]) -> None:
    agent = small(wide, memory=memory).learn(64)
    assert np.shape(agent.predict(np.zeros(3))[0]) == ()
    assert len(agent.evaluate(2).returns) == 2


def test_a_single_number_is_an_action_that_its_space_contains() -> None:
    space = spaces.Box(-1.0, 1.0, (), np.float32)
    action, _ = small(lambda: Random(action_space=space)).predict(np.zeros(3))
    assert isinstance(action, np.ndarray)
    assert space.contains(action)


def test_prediction_does_not_disturb_training(cartpole: PPO, observation: Array) -> None:
    quiet, busy = small().learn(32), small().learn(32)
    for _ in range(10):
        busy.predict(observation)
    assert quiet.learn(32).learner.flat.values.equal(busy.learn(32).learner.flat.values)


@pytest.fixture(scope="module")
def remembering() -> PPO:
    return small(compile="auto", memory={"kind": "lstm", "hidden_size": 4}).learn(64)


def test_memory_is_handed_out_and_taken_back(remembering: PPO, observation: Array) -> None:
    _, first = remembering.predict(observation)
    _, second = remembering.predict(observation, state=first)
    assert np.shape(first) == np.shape(second)
    assert not np.array_equal(first, second)


def test_the_start_of_an_episode_forgets(remembering: PPO, observation: Array) -> None:
    rows = np.stack([observation, observation])
    _, first = remembering.predict(rows)
    _, second = remembering.predict(rows, state=first, episode_start=np.array([True, False]))
    assert np.array_equal(second[0], first[0])
    assert not np.array_equal(second[1], first[1])


def test_prediction_leaves_the_given_memory_alone(remembering: PPO, observation: Array) -> None:
    _, state = remembering.predict(observation)
    before = np.array(state)
    remembering.predict(observation, state=state, episode_start=np.array([True]))
    assert np.array_equal(state, before)


@pytest.mark.parametrize("shape", [(1, 3), (2, 8), (8,)])
def test_a_memory_of_the_wrong_shape_is_named(remembering: PPO, observation: Array, shape: tuple[int, ...]) -> None:
    with pytest.raises(SurefootError, match="state"):
        remembering.predict(observation, state=np.zeros(shape))


def test_a_mask_forbids_actions(cartpole: PPO, observation: Array) -> None:
    rows = np.tile(observation, (200, 1))
    assert set(cartpole.predict(rows, action_masks=np.tile([False, True], (200, 1)))[0].tolist()) == {1}
    assert int(cartpole.predict(observation, action_masks=np.array([True, False]))[0]) == 0
    assert int(cartpole.predict(observation, deterministic=True, action_masks=np.array([False, True]))[0]) == 1


def test_each_row_has_its_own_mask(cartpole: PPO, observation: Array) -> None:
    masks = np.array([[True, False], [False, True], [True, False]])
    assert cartpole.predict(np.tile(observation, (3, 1)), action_masks=masks)[0].tolist() == [0, 1, 0]


def test_masks_of_several_choices_lie_side_by_side() -> None:
    agent = small(lambda: Random(action_space=spaces.MultiDiscrete([2, 3]))).learn(32)
    mask = np.array([False, True, True, False, False])
    actions, _ = agent.predict(np.zeros((50, 3)), action_masks=np.tile(mask, (50, 1)))
    assert np.unique(actions, axis=0).tolist() == [[1, 0]]


@pytest.mark.parametrize("mask", [[True, False, True], [True], [[True, True], [True, True], [True, True]]])
def test_a_mask_of_the_wrong_shape_is_named(cartpole: PPO, observation: Array, mask: Any) -> None:
    with pytest.raises(SurefootError, match="mask"):
        cartpole.predict(np.tile(observation, (2, 1)), action_masks=np.array(mask))


def test_a_mask_without_any_legal_action_is_an_error(cartpole: PPO, observation: Array) -> None:
    with pytest.raises(SurefootError, match="legal"):
        cartpole.predict(observation, action_masks=np.array([False, False]))


def test_a_mask_for_continuous_actions_is_an_error() -> None:
    with pytest.raises(SurefootError, match="mask"):
        small("Pendulum-v1").predict(np.zeros(3), action_masks=np.array([True]))


WRONG: dict[str, Any] = {
    "too short": np.zeros(3),
    "too long": np.zeros(5),
    "a scalar": 0.0,
    "too many axes": np.zeros((2, 3, 4)),
    "nothing": None,
    "text": "left",
    "a dict": {"obs": np.zeros(4)},
    "what reset returns": (np.zeros(4, np.float32), {}),
    "ragged": [[0.0] * 4, [0.0] * 3],
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_an_observation_of_the_wrong_form_is_explained(cartpole: PPO, wrong: Any) -> None:
    with pytest.raises(SurefootError, match=r"observation.*\(4,\)"):
        cartpole.predict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"numbers": np.zeros(2)},
        {"numbers": np.zeros((3, 2)), "kind": np.zeros(2, int)},
        {"numbers": np.zeros((3, 2)), "kind": 1},
        {"numbers": np.zeros(2), "kind": 7},
        np.zeros(3),
    ],
    ids=["a part is missing", "parts of two lengths", "one part single", "a category that is not", "no dict"],
)
def test_a_dict_observation_of_the_wrong_form_is_explained(wrong: Any) -> None:
    agent = small(lambda: Random(dict_space()))
    with pytest.raises(SurefootError, match="observation"):
        agent.predict(wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_observation_that_is_not_finite_is_an_error(cartpole: PPO, observation: Array, value: float) -> None:
    observation[2] = value
    with pytest.raises(SurefootError, match="observation"):
        cartpole.predict(observation)


def test_pixels_that_are_no_bytes_are_refused() -> None:
    agent = small(lambda: Random(image_space()), policy={"cnn_channels": (4,), "cnn_features": 8})
    with pytest.raises(SurefootError, match="whole numbers from 0 to 255"):
        agent.predict(np.full((12, 12, 3), 0.5, np.float32))


def test_starts_of_episodes_are_one_for_each_row(remembering: PPO, observation: Array) -> None:
    with pytest.raises(SurefootError, match="episode_start"):
        remembering.predict(observation, episode_start=np.array([True, False]))
