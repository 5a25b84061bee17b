"""Environments that break their contract: the error names the env, the step and the field, and nothing is learned."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from faults.broken import Broken, Fault
from surefoot.errors import EnvError, NonFiniteError, SurefootError, SurefootWarning, UnsupportedSpaceError
from train.agents import Random, parameters, small
from vector.worlds import Clockwork, Ticking


def failure(env: Any, **settings: Any) -> SurefootError:
    """What learning raises; no weight moved before it."""
    agent = small(env, **settings)
    before = parameters(agent)
    with pytest.raises(SurefootError) as caught:
        agent.learn(64)
    assert parameters(agent).equal(before)
    return caught.value


def test_raising_in_reset_names_the_env() -> None:
    error = failure(lambda: Broken("raise", at_step=0))
    assert isinstance(error, EnvError)
    assert re.search(r"env 0 \(Broken\) raised in reset: RuntimeError: broken on purpose", str(error))


def test_raising_in_step_names_env_step_and_action() -> None:
    error = failure(lambda: Broken("raise", at_step=3))
    assert isinstance(error, EnvError)
    assert re.search(r"env 0 \(Broken\) raised in step 2 \(action .*\): RuntimeError: broken on purpose", str(error))


def test_the_original_error_is_kept_for_the_traceback() -> None:
    error: BaseException | None = failure(lambda: Broken("raise", at_step=3))
    chain = []
    while error is not None:
        chain.append(type(error))
        error = error.__cause__
    assert RuntimeError in chain


def test_the_second_env_is_named_when_it_fails() -> None:
    class Second(Random):
        made = 0

        def __init__(self) -> None:
            super().__init__()
            self._number = Second.made
            Second.made += 1

        def step(self, action: Any) -> Any:
            if self._number == 1:
                raise ValueError("only the second")
            return super().step(action)

    assert "env 1 (Second) raised in step 0" in str(failure(Second))


@pytest.mark.parametrize("fault", ["nan_observation", "inf_observation"])
def test_an_observation_that_is_not_finite_names_env_step_and_entry(fault: Fault) -> None:
    error = failure(lambda: Broken(fault, at_step=3))
    assert isinstance(error, NonFiniteError)
    assert re.search(r"observation\[1\] is (nan|inf) in env 0 at step 2", str(error))


@pytest.mark.parametrize("fault", ["nan_reward", "inf_reward"])
def test_a_reward_that_is_not_finite_names_env_and_step(fault: Fault) -> None:
    error = failure(lambda: Broken(fault, at_step=3))
    assert isinstance(error, NonFiniteError)
    assert re.search(r"reward is (nan|inf) in env 0 at step 2", str(error))


@pytest.mark.parametrize(
    ("fault", "part"), [("shape", r"shape \(3,\).*\(2,\)"), ("bounds", r"7\.0 lies outside.*1\.0")]
)
def test_a_first_observation_outside_its_space_is_explained(fault: Fault, part: str) -> None:
    error = failure(lambda: Broken(fault, at_step=0))
    assert isinstance(error, EnvError)
    assert re.search(rf"env 0 \(Broken\) in reset: observation.*{part}", str(error))


def test_a_later_observation_of_another_shape_names_env_and_step() -> None:
    error = failure(lambda: Broken("shape", at_step=3))
    assert re.search(
        r"env 0 \(Broken\) in step \d: observation 'obs' has shape \(3,\), its space says \(2,\)", str(error)
    )


@pytest.mark.parametrize("fault", ["raise", "shape", "nan_observation", "nan_reward"])
def test_faults_inside_a_vector_env_name_it(fault: Fault) -> None:
    error = failure(SyncVectorEnv([lambda: Broken(fault)] * 2), n_envs=2)
    assert re.search(r"vector env SyncVectorEnv|env 0 at step", str(error))
    assert "step 2" in str(error)


class FourTuple(Random):
    def step(self, action: Any) -> Any:
        return super().step(action)[:4]


class OldReset(Random):
    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0]


class NoSeed(Random):
    def reset(self) -> Any:  # type: ignore[override]  # a contract broken on purpose
        return super().reset()


class VectorReward(Random):
    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, np.zeros(2), *rest


class TextReward(Random):
    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, "much", *rest


class NoInfo(Random):
    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], None


class NoObservation(Random):
    def step(self, action: Any) -> Any:
        return None, *super().step(action)[1:]


@pytest.mark.parametrize("env", [FourTuple, OldReset, NoSeed, VectorReward, TextReward, NoInfo, NoObservation])
def test_a_broken_interface_names_the_env(env: Callable[[], Any]) -> None:
    assert f"env 0 ({env.__name__})" in str(failure(env))


class Odd(Random):
    """Puts something in the place of a part of what it gives at one step; 0 is the reset."""

    def __init__(self, part: str, odd: Any, at: int = 3) -> None:
        super().__init__()
        self._part, self._odd, self._at, self._made = part, odd, at, 0

    def reset(self, **options: Any) -> Any:
        observation, info = super().reset(**options)
        return (self._odd if self._part == "observation" and self._at == 0 else observation), info

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        self._made += 1
        if self._made == self._at:
            observation = self._odd if self._part == "observation" else observation
            reward = self._odd if self._part == "reward" else reward
        if self._part == "is_success":
            info["is_success"] = self._odd
        return observation, reward, terminated, truncated, info


OBSERVATIONS: dict[str, tuple[Any, str]] = {
    "complex": (np.array([1j, 0, 0]), "has dtype complex128"),
    "dates": (np.array(["2024-01-01"] * 3, "datetime64[s]"), "has dtype datetime64"),
    "durations": (np.array([1, 2, 3], "timedelta64[s]"), "has dtype timedelta64"),
    "objects": (np.array([0.1, None, 0.2], object), "has dtype object"),
    "text": (np.array(["0.1", "0.2", "0.3"]), "has dtype <U3"),
    "ragged": ([0.1, [0.2, 0.3], 0.4], "ValueError"),
    "a tensor with a gradient": (torch.zeros(3, requires_grad=True), r"detach\(\)"),
}


@pytest.mark.parametrize("at", [0, 3], ids=["reset", "step"])
@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_an_observation_that_is_no_real_numbers_names_env_step_and_kind(kind: str, at: int) -> None:
    odd, said = OBSERVATIONS[kind]
    error = failure(lambda: Odd("observation", odd, at))
    assert isinstance(error, EnvError)
    assert re.search(rf"env 0 \(Odd\) in {'step 3' if at else 'reset'}: observation.*{said}", str(error))


def test_an_observation_of_a_worker_that_is_no_real_numbers_names_env_and_step() -> None:
    error = failure(partial(Ticking, later=np.complex128), workers=1)
    assert isinstance(error, EnvError)
    assert "env 0 (Ticking) in step 1: observation 'obs' has dtype complex128" in str(error)


@pytest.mark.parametrize("kind", ["complex", "dates", "durations", "objects", "a tensor with a gradient"])
@pytest.mark.parametrize("at", [0, 2], ids=["reset", "step"])
def test_an_observation_of_a_vector_env_that_is_no_real_numbers_names_it(kind: str, at: int) -> None:
    row, said = OBSERVATIONS[kind]
    odd = torch.zeros(2, 2, requires_grad=True) if torch.is_tensor(row) else np.stack([row[:2]] * 2)

    class OddVector(Clockwork):
        def reset(self, **options: Any) -> Any:
            observation, info = super().reset(**options)
            return (observation if at else odd), info

        def step(self, actions: Any) -> Any:
            observation, *rest = super().step(actions)
            return (odd if self._clock == at else observation), *rest

    error = failure(OddVector(2))
    assert isinstance(error, EnvError)
    assert re.search(rf"vector env OddVector in {'step 2' if at else 'reset'}: observation.*{said}", str(error))


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (np.ones(1), r"has shape \(1,\)"),
        (np.ones((1, 1)), r"has shape \(1, 1\)"),
        ([1.0], r"has shape \(1,\)"),
        (1j, "is 1j, not a number"),
        ("much", "is 'much', not a number"),
        (None, "is None, not a number"),
        (10**400, "is too large"),
    ],
    ids=str,
)
def test_a_reward_that_is_no_number_names_env_step_and_what_it_is(odd: Any, said: str) -> None:
    error = failure(lambda: Odd("reward", odd))
    assert isinstance(error, EnvError)
    assert re.search(rf"env 0 \(Odd\) in step 2: reward {said}", str(error))
    assert "raised" not in str(error)


@pytest.mark.parametrize("number", [np.array(1.0), np.float32(1.0), np.int64(1), 1, True, torch.tensor(1.0)], ids=repr)
def test_a_reward_may_be_any_kind_of_number(number: Any) -> None:
    assert small(lambda: Odd("reward", number)).learn(32).num_timesteps == 32


@pytest.mark.parametrize("odd", [np.array([True, False]), "yes", np.nan, []], ids=str)
def test_a_success_that_is_neither_true_nor_false_names_env_and_step(odd: Any) -> None:
    said = r"info\['is_success'\] of env 0 at step 7 is .*not True or False"
    assert re.search(said, str(failure(lambda: Odd("is_success", odd))))
    with pytest.raises(EnvError, match=said):
        small(lambda: Odd("is_success", odd)).evaluate(1)


@pytest.mark.parametrize(("given", "rate"), [(True, 1.0), (np.bool_(False), 0.0), (np.array([1]), 1.0), (0.0, 0.0)])
def test_a_success_may_be_any_kind_of_flag(given: Any, rate: float) -> None:
    assert small(lambda: Odd("is_success", given)).learn(32).logger_values["rollout/success_rate"] == rate


def test_a_success_that_is_not_known_is_not_counted() -> None:
    assert "rollout/success_rate" not in small(lambda: Odd("is_success", None)).learn(32).logger_values


def test_an_env_without_spaces_is_named() -> None:
    class Bare(gymnasium.Env[Any, Any]):
        pass

    with pytest.raises(SurefootError, match="Bare"):
        small(Bare)


def test_a_function_that_raises_while_making_an_env_is_named() -> None:
    def make() -> gymnasium.Env[Any, Any]:
        raise FileNotFoundError("prices.csv")

    with pytest.raises(EnvError, match=r"make.*FileNotFoundError.*prices\.csv"):
        small(make)


def test_envs_of_different_spaces_are_refused() -> None:
    sizes = iter([3, 4])
    with pytest.raises(EnvError, match=r"env 1 \(Random\) has other spaces"):
        small(lambda: Random(spaces.Box(-1.0, 1.0, (next(sizes),), np.float32)))


UNSUPPORTED: list[spaces.Space[Any]] = [
    spaces.Text(4),
    spaces.Sequence(spaces.Discrete(2)),
    spaces.Graph(spaces.Box(-1.0, 1.0, (2,)), None),
    spaces.Dict({"word": spaces.Text(4)}),
    spaces.Tuple((spaces.Discrete(2), spaces.Text(4))),
]


@pytest.mark.parametrize("space", UNSUPPORTED, ids=lambda space: type(space).__name__)
def test_an_unsupported_observation_space_is_named_with_what_is_supported(space: spaces.Space[Any]) -> None:
    with pytest.raises(UnsupportedSpaceError, match=r"observation .* has the space .*; supported: Box, Discrete"):
        small(lambda: Random(space))


@pytest.mark.parametrize("space", [spaces.Dict(), spaces.Tuple(()), spaces.Box(-1.0, 1.0, (0,))])
def test_an_observation_space_without_any_number_is_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(UnsupportedSpaceError):
        small(lambda: Random(space))


def test_two_observations_of_one_name_are_refused_or_kept_apart() -> None:
    def space() -> spaces.Dict:
        return spaces.Dict({"a/b": spaces.Discrete(2), "a": spaces.Dict({"b": spaces.Discrete(3)})})

    try:
        agent = small(lambda: Random(space()))
    except UnsupportedSpaceError:
        return
    assert len({leaf.name for leaf in agent.envs.layout.leaves}) == 2


@pytest.mark.parametrize(
    "space",
    [spaces.Text(4), spaces.Sequence(spaces.Discrete(2)), spaces.Graph(spaces.Box(-1.0, 1.0, (2,)), None)],
    ids=lambda space: type(space).__name__,
)
def test_an_unsupported_action_space_is_named_with_what_is_supported(space: spaces.Space[Any]) -> None:
    with pytest.raises(UnsupportedSpaceError, match="Supported: Discrete, MultiDiscrete, MultiBinary"):
        small(lambda: Random(action_space=space))


def test_a_rollout_that_does_not_fill_its_minibatches_says_what_happens_to_the_rest() -> None:
    with pytest.warns(SurefootWarning, match=r"n_steps 16 x n_envs 2 = 32 .*batch_size 24.*8 rows"):
        agent = small(batch_size=24)
    assert agent.learn(32).logger_values["train/gradient_steps"] == 4  # two epochs of 24 and 8 rows


def test_the_warning_points_at_the_line_that_made_the_agent() -> None:
    from surefoot import PPO

    with pytest.warns(SurefootWarning) as caught:
        PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=24)
    assert caught[0].filename == __file__
