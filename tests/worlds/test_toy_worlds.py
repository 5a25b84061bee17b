"""What every toy world promises; a new one adds a line to WORLDS."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from surefoot.worlds import (
    Bandit,
    ContinuousTarget,
    Corridor,
    CostlyArm,
    CrashPortfolio,
    Greenhouse,
    Identity,
    IdentityBinary,
    IdentityMulti,
    LastActionPays,
    Recall,
    SafeOrRisky,
    TMaze,
    ToyEnv,
    WindyCliff,
)

Policy = Callable[[Any], Any]


def last_action(observation: Any) -> Any:
    return np.argmax(observation[:-1])


def joined_one_hots(sizes: list[int]) -> Policy:
    return lambda observation: np.array([np.argmax(part) for part in np.split(observation, np.cumsum(sizes)[:-1])])


def carry_out(sizes: list[int], flat: bool = False) -> Policy:
    """Do what the order of a greenhouse says."""

    def policy(observation: Any) -> Any:
        order = joined_one_hots(sizes)(observation[: sum(sizes)])
        return np.ravel_multi_index(tuple(order), sizes) if flat else order

    return policy


def remember(shown: slice, is_first: Callable[[Any], bool], is_question: Callable[[Any], bool], shift: int) -> Policy:
    """Answer a question with what was shown first; otherwise 0."""
    kept = 0

    def policy(observation: Any) -> Any:
        nonlocal kept
        if is_first(observation):
            kept = int(np.argmax(observation[shown])) + shift
        return kept if is_question(observation) else 0

    return policy


def recall_first() -> Policy:
    return remember(slice(-2), lambda observation: observation[-2] == 1, lambda observation: observation[-1] == 1, 0)


def turn_as_told() -> Policy:
    return remember(slice(2), lambda observation: observation[:2].any(), lambda observation: observation[3] == 1, 1)


WORLDS: dict[str, tuple[Callable[[], ToyEnv[Any, Any]], Policy]] = {
    "identity": (Identity, np.argmax),
    "identity-plain": (lambda: Identity(n=3, one_hot=False), lambda observation: observation),
    "identity-multi": (IdentityMulti, joined_one_hots([3, 2, 4])),
    "identity-multi-plain": (lambda: IdentityMulti(one_hot=False), lambda observation: observation),
    "identity-binary": (IdentityBinary, joined_one_hots([2] * 4)),
    "identity-binary-plain": (lambda: IdentityBinary(n=3, one_hot=False), lambda observation: observation),
    "bandit": (Bandit, lambda observation: 1),
    "bandit-long": (lambda: Bandit((0.1, 0.9, 0.5), n_pulls=5), lambda observation: 1),
    "corridor": (lambda: Corridor(time_limit=400), lambda observation: 1),
    "continuous-target": (ContinuousTarget, lambda observation: observation),
    "continuous-target-3d": (
        lambda: ContinuousTarget(n_dims=3, episode_length=5),
        lambda observation: observation,
    ),
    "last-action-pays": (LastActionPays, last_action),
    "safe-or-risky": (SafeOrRisky, lambda observation: 1),
    "crash-portfolio": (CrashPortfolio, lambda observation: np.ones(1, np.float32)),
    "windy-cliff": (WindyCliff, lambda observation: 0),
    "costly-arm": (CostlyArm, lambda observation: 1),
    "greenhouse": (Greenhouse, carry_out([3, 3, 4])),
    "greenhouse-eight-heads": (
        lambda: Greenhouse(n_slots=2, n_kinds=3, n_dials=5, n_levels=2, episode_length=9),
        carry_out([3, 2, 3, 2, 2, 2, 2, 2]),
    ),
    "greenhouse-flat": (lambda: Greenhouse(n_dials=1, flat=True), carry_out([3, 3, 4, 3], flat=True)),
    "recall": (Recall, recall_first()),
    "recall-long": (lambda: Recall(k=20, n_symbols=2), recall_first()),
    "recall-at-once": (lambda: Recall(k=0), recall_first()),
    "t-maze": (TMaze, turn_as_told()),
    "t-maze-short": (lambda: TMaze(length=2, time_limit=5), turn_as_told()),
}
every_world = pytest.mark.parametrize(("make", "best"), WORLDS.values(), ids=WORLDS.keys())


def episode_returns(env: ToyEnv[Any, Any], policy: Policy, n_episodes: int) -> np.ndarray[Any, Any]:
    """Returns under the world's own discount."""
    returns = []
    for _ in range(n_episodes):
        observation, _ = env.reset()
        total, weight, done = 0.0, 1.0, False
        while not done:
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            total += weight * float(reward)
            weight *= env.discount
            done = terminated or truncated
        returns.append(total)
    return np.array(returns)


@every_world
def test_gymnasium_accepts_it(make: Callable[[], ToyEnv[Any, Any]], best: Policy) -> None:
    check_env(make(), skip_render_check=True)


def near(returns: np.ndarray[Any, Any], expected: float) -> bool:
    """Within five standard errors."""
    return bool(abs(returns.mean() - expected) <= 5 * returns.std() / len(returns) ** 0.5 + 1e-6)


@every_world
def test_the_best_policy_earns_the_optimum(make: Callable[[], ToyEnv[Any, Any]], best: Policy) -> None:
    env = make()
    env.reset(seed=0)
    assert near(episode_returns(env, best, 50), env.optimal_return)
    assert env.score(env.optimal_return) == 1.0


@every_world
def test_the_random_policy_earns_the_random_return(make: Callable[[], ToyEnv[Any, Any]], best: Policy) -> None:
    env = make()
    env.reset(seed=0)
    env.action_space.seed(1)  # another stream than the world's
    assert near(episode_returns(env, lambda observation: env.action_space.sample(), 100), env.random_return)
    assert env.score(env.random_return) == 0.0


def continuation(env: ToyEnv[Any, Any], n_steps: int) -> list[Any]:
    """Everything the world says while fixed random actions are played through resets."""
    env.action_space.seed(7)
    said: list[Any] = []
    for _ in range(n_steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        said.append((np.asarray(observation).tobytes(), float(reward), terminated, truncated))
        if terminated or truncated:
            said.append(np.asarray(env.reset()[0]).tobytes())
    return said


@every_world
def test_the_same_seed_gives_the_same_world(make: Callable[[], ToyEnv[Any, Any]], best: Policy) -> None:
    first, second = make(), make()
    first.reset(seed=11)
    second.reset(seed=11)
    assert continuation(first, 100) == continuation(second, 100)


@every_world
@pytest.mark.parametrize("n_steps_before", [0, 3, 37])
def test_a_saved_world_continues_bit_for_bit(
    make: Callable[[], ToyEnv[Any, Any]], best: Policy, n_steps_before: int
) -> None:
    original, copy = make(), make()
    original.reset(seed=5)
    continuation(original, n_steps_before)
    saved = json.dumps(original.state_dict())
    copy.load_state_dict(json.loads(saved))
    assert continuation(copy, 100) == continuation(original, 100)


@every_world
def test_saving_takes_a_snapshot(make: Callable[[], ToyEnv[Any, Any]], best: Policy) -> None:
    env = make()
    env.reset(seed=5)
    saved = env.state_dict()
    before = json.dumps(saved)
    continuation(env, 40)
    assert json.dumps(saved) == before
