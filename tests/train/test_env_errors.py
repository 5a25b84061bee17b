"""Environments that break their contract: the error names the env, the step and the field, and nothing is learned."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from surefoot.envs import Broken
from surefoot.envs.broken import Fault
from surefoot.errors import EnvError, NonFiniteError, SurefootError, SurefootWarning, UnsupportedSpaceError
from train.agents import Random, parameters, small


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
