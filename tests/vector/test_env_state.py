"""Environments saved in mid-episode go on bit for bit, or say that they cannot (Y02)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import NormalizeObservation, OrderEnforcing, TimeLimit, TransformReward

from algo.building import make_learner
from surefoot.errors import EnvStateError
from surefoot.vector.env_state import Resumable, capture, restore
from surefoot.vector.group import EnvGroup
from surefoot.worlds import ENTRY_POINTS, register_envs

register_envs()

CLASSIC = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"]
TOYS = sorted(ENTRY_POINTS)
ENVS = [*CLASSIC, *TOYS]
every_env = pytest.mark.parametrize("env_id", ENVS)

Trace = list[tuple[Any, float, bool, bool]]


def run(env: gymnasium.Env[Any, Any], actions: list[Any]) -> Trace:
    """Observations, rewards and ends; finished episodes are followed by a reset, which draws from the env's stream."""
    trace: Trace = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        trace.append((np.asarray(observation).tolist(), float(reward), terminated, truncated))
        if terminated or truncated:
            trace.append((np.asarray(env.reset()[0]).tolist(), 0.0, False, False))
    return trace


def some_actions(env: gymnasium.Env[Any, Any], n: int, seed: int) -> list[Any]:
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(n)]


def make(env_id: str, **options: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(env_id, max_episode_steps=40, **options)


@every_env
@pytest.mark.parametrize("checker", [True, False])
@pytest.mark.parametrize("steps", [0, 1, 17, 95])
def test_a_restored_env_goes_on_bit_for_bit(env_id: str, checker: bool, steps: int) -> None:
    env = make(env_id, disable_env_checker=not checker)
    env.reset(seed=3)
    run(env, some_actions(env, steps, 0))
    state = json.loads(json.dumps(capture(env)))
    actions = some_actions(env, 120, 1)
    expected = run(env, actions)
    other = make(env_id, disable_env_checker=not checker)
    other.reset(seed=99)
    restore(other, state)
    assert run(other, actions) == expected


@pytest.mark.parametrize("checker", [True, False])
@pytest.mark.parametrize("steps", [0, 1, 2, 17])
def test_an_env_that_was_in_use_can_be_restored(checker: bool, steps: int) -> None:
    env, used = (make("CartPole-v1", disable_env_checker=not checker) for _ in range(2))
    env.reset(seed=3)
    run(env, some_actions(env, steps, 0))
    used.reset(seed=99)
    run(used, some_actions(used, 50, 2))
    state = capture(env)
    assert state is not None
    restore(used, json.loads(json.dumps(state)))
    actions = some_actions(env, 120, 1)
    assert run(used, actions) == run(env, actions)


@every_env
def test_capturing_does_not_disturb(env_id: str) -> None:
    traces = []
    for captures in (False, True):
        env = make(env_id)
        env.reset(seed=3)
        actions = some_actions(env, 60, 0)
        trace = run(env, actions[:20])
        if captures:
            capture(env)
        traces.append(trace + run(env, actions[20:]))
    assert traces[0] == traces[1]


@every_env
def test_a_captured_state_is_a_copy(env_id: str) -> None:
    env = make(env_id)
    env.reset(seed=3)
    state = capture(env)
    before = json.dumps(state)
    run(env, some_actions(env, 30, 0))
    assert json.dumps(state) == before


class Heavier(CartPoleEnv):
    """A subclass may keep state that nobody here knows of."""


UNKNOWN: dict[str, Callable[[], gymnasium.Env[Any, Any]]] = {
    "wrapper": lambda: TransformReward(gymnasium.make("CartPole-v1"), lambda reward: 2 * float(reward)),
    "wrapper with statistics": lambda: NormalizeObservation(gymnasium.make("CartPole-v1")),
    "unknown inside known": lambda: TimeLimit(
        OrderEnforcing(TransformReward(CartPoleEnv(), lambda reward: 2 * float(reward))), 100
    ),
    "subclass of a known env": Heavier,
}
every_unknown = pytest.mark.parametrize("make_unknown", UNKNOWN.values(), ids=UNKNOWN.keys())


@every_unknown
def test_an_unknown_part_makes_the_whole_unknown(make_unknown: Callable[[], gymnasium.Env[Any, Any]]) -> None:
    env = make_unknown()
    env.reset(seed=0)
    assert capture(env) is None


@every_unknown
def test_a_learner_on_unknown_envs_says_that_its_state_is_not_exact(
    make_unknown: Callable[[], gymnasium.Env[Any, Any]],
) -> None:
    learner = make_learner(make_unknown)
    assert learner.state_dict().exact  # nothing has begun
    learner.collect()
    assert not learner.state_dict().exact


@pytest.mark.parametrize("env_id", [*CLASSIC, *TOYS])
def test_a_learner_on_known_envs_says_that_its_state_is_exact(env_id: str) -> None:
    learner = make_learner(env_id)
    learner.collect()
    assert learner.state_dict().exact


def test_one_unknown_env_makes_the_group_unknown() -> None:
    group = EnvGroup([gymnasium.make("CartPole-v1"), UNKNOWN["wrapper"]()])
    group.reset(0)
    assert group.state_dict() is None


class Speaks(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper that saves itself and what it wraps."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.count = 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.count += 1
        return super().step(action)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "inner": capture(self.env)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]
        restore(self.env, state["inner"])


def test_an_env_that_speaks_for_itself_is_asked() -> None:
    env = Speaks(gymnasium.make("CartPole-v1"))
    assert isinstance(env, Resumable)
    env.reset(seed=0)
    for _ in range(4):
        env.step(0)
    state = capture(env)
    other = Speaks(gymnasium.make("CartPole-v1"))
    other.reset(seed=5)
    assert state is not None
    restore(other, json.loads(json.dumps(state)))
    assert other.count == 4
    assert other.step(1)[0].tolist() == env.step(1)[0].tolist()


@pytest.mark.parametrize(
    ("saved", "into"), [("CartPole-v1", "surefoot/Bandit-v0"), ("surefoot/Bandit-v0", "CartPole-v1")]
)
def test_a_state_of_another_env_is_refused(saved: str, into: str) -> None:
    env, other = gymnasium.make(saved), gymnasium.make(into)
    env.reset(seed=0)
    other.reset(seed=0)
    state = capture(env)
    assert state is not None
    with pytest.raises(ValueError, match="does not belong"):
        restore(other, state)


def test_a_state_of_another_classic_env_is_refused() -> None:
    env, other = gymnasium.make("Pendulum-v1"), gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    other.reset(seed=0)
    state = capture(env)
    assert state is not None
    with pytest.raises(ValueError, match="does not belong"):
        restore(other, state)


def test_a_known_env_with_something_odd_in_it_is_told() -> None:
    env = CartPoleEnv()
    env.reset(seed=0)
    env.state = {"position"}  # type: ignore[assignment]  # what is under test
    with pytest.raises(EnvStateError, match="state is a set"):
        capture(env)
