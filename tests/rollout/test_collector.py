"""A rollout holds what happened, each thing in its row (A10, M06)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from algo.building import learner_on
from surefoot.algo.learner import Learner
from surefoot.rollout import collector
from vector.worlds import SOURCES, Ending, Scripted, located, observation_at, open_envs, reward_at

every_source = pytest.mark.parametrize("source", SOURCES)
N, T = 3, 24


class Recorder(Scripted):
    """Remembers the actions that it was given, by (env, episode, step), and writes over them."""

    given: dict[tuple[int, int, int], Any]

    def __init__(self, number: int, action_space: spaces.Space[Any], given: dict[tuple[int, int, int], Any]) -> None:
        super().__init__(number, cost=0.25)
        self.action_space, self.given = action_space, given

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.given[self._number, self._episode, self._step] = np.array(action).tolist()
        if isinstance(action, np.ndarray):
            action[...] = 0
        return super().step(action)


ACTIONS: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(3, start=-1),
    "multidiscrete": spaces.MultiDiscrete([2, 3]),
    "multibinary": spaces.MultiBinary(3),
    "box": spaces.Box(-0.5, 0.5, (2,), np.float32),
}


def recorded(source: str, action: str = "discrete") -> tuple[Learner, dict[tuple[int, int, int], Any]]:
    given: dict[tuple[int, int, int], Any] = {}
    envs = open_envs(source, [partial(Recorder, n, ACTIONS[action], given) for n in range(N)])
    return learner_on(envs, n_steps=T, batch_size=T), given


def place(rollout: Any, t: int, n: int) -> tuple[int, int, int]:
    return located("box", {"obs": rollout.observation["obs"][t, n]})


@every_source
@pytest.mark.parametrize("action", ACTIONS)
def test_each_row_holds_the_action_that_the_env_was_given(source: str, action: str) -> None:
    learner, given = recorded(source, action)
    for _ in range(2):
        rollout = learner.collect()
        for t, n in torch.nonzero(rollout.valid).tolist():
            taken = learner.family.to_env(rollout.action[t].numpy())[n]
            assert np.array(taken).tolist() == given[place(rollout, t, n)]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("at_once", [7, 10_000])
def test_log_probabilities_are_those_of_the_drawn_actions(
    action: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "ROWS_AT_ONCE", at_once)
    learner, _ = recorded("next-step", action)
    rollout = learner.collect()
    for t in range(T):
        distribution = learner.family.bind(rollout.parameters[t])
        torch.testing.assert_close(rollout.log_prob[t], distribution.log_prob(rollout.action[t]), rtol=0, atol=1e-6)
    if rollout.head_log_prob is not None:
        torch.testing.assert_close(rollout.head_log_prob.sum(-1), rollout.log_prob, rtol=0, atol=1e-6)


@every_source
def test_each_row_holds_the_reward_and_cost_of_its_action(source: str) -> None:
    learner, _ = recorded(source)
    for _ in range(2):
        rollout = learner.collect()
        for t, n in torch.nonzero(rollout.valid).tolist():
            assert rollout.reward[t, n].item() == pytest.approx(reward_at(*place(rollout, t, n)))
            assert rollout.cost[t, n].item() == 0.25
        assert not rollout.reward[~rollout.valid].any()
        assert not rollout.cost[~rollout.valid].any()


@every_source
def test_rollouts_join_without_a_gap(source: str) -> None:
    learner, given = recorded(source)
    places = []
    for k in range(3):
        rollout = learner.collect()
        assert rollout.first_step == k * T
        places += [place(rollout, t, n) for t, n in torch.nonzero(rollout.valid).tolist()]
    assert len(set(places)) == len(places) == learner.timesteps
    assert set(places) == set(given)


@every_source
def test_the_row_after_the_last_is_what_comes_next(source: str) -> None:
    learner, _ = recorded(source)
    rollout = learner.collect()
    last = rollout.observation["obs"][T].clone()
    assert torch.equal(learner.collect().observation["obs"][0], last)


@every_source
def test_only_truncated_steps_keep_their_successor_apart(source: str) -> None:
    learner, _ = recorded(source)
    rollout = learner.collect()
    cut = rollout.truncated & ~rollout.terminated
    places = list(zip(rollout.final.t.tolist(), rollout.final.env.tolist(), strict=True))
    assert places == [tuple(x) for x in torch.nonzero(cut).tolist()]
    for (t, env), observation in zip(places, rollout.final.observation["obs"], strict=True):
        number, episode, step = place(rollout, t, env)
        assert located("box", {"obs": observation}) == (number, episode, step + 1)


@every_source
def test_successors_of_truncated_steps_are_normalized_like_all_else(source: str) -> None:
    """M06: after the first rollout, one frozen scale for what is acted upon and for what it is bootstrapped from."""
    envs = open_envs(source, [partial(Scripted, 0, (Ending(4, False, True),))])
    learner = learner_on(envs, n_steps=T, batch_size=T, normalize_observations=True)
    episode = len(learner.collect().final)
    assert learner.observations is not None
    learner.observations.finish_rollout()
    for observation in learner.collect().final.observation["obs"]:
        raw = {"obs": observation_at("box", 0, episode, 4)[None]}
        assert np.array_equal(observation, learner.observations(raw)["obs"][0])
        assert not np.allclose(observation, raw["obs"][0], atol=0.1)
        episode += 1
    assert episode > 6


@every_source
def test_first_steps_of_episodes_are_marked(source: str) -> None:
    """M02."""
    learner, _ = recorded(source)
    for _ in range(2):
        rollout = learner.collect()
        for t, n in torch.nonzero(rollout.valid).tolist():
            assert bool(rollout.start[t, n]) == (place(rollout, t, n)[2] == 0)


@every_source
def test_episodes_that_ended_are_listed_with_their_last_step(source: str) -> None:
    learner, _ = recorded(source)
    rollout = learner.collect()
    assert [(t, env) for t, episodes in rollout.ended for env in episodes.env.tolist()] == [
        tuple(x) for x in torch.nonzero(rollout.done).tolist()
    ]


def test_log_probabilities_and_parameters_are_those_of_the_acting_policy() -> None:
    learner, _ = recorded("group", "box")
    rollout = learner.collect()
    with torch.no_grad():
        parameters = learner.policy.action_parameters({"obs": rollout.observation["obs"][:-1].flatten(0, 1)})
        log_prob = learner.family.bind(parameters).log_prob(rollout.action.flatten(0, 1))
    assert torch.allclose(rollout.parameters.flatten(0, 1), parameters, atol=1e-5)
    assert torch.allclose(rollout.log_prob.flatten(), log_prob, atol=1e-5)


def test_actions_are_drawn_not_chosen() -> None:
    """Under a policy that hardly prefers anything, each of three actions comes about as often."""
    learner, _ = recorded("group")
    counts = torch.zeros(3)
    for _ in range(10):
        counts += torch.bincount(learner.collect().action.flatten(), minlength=3)
    shares = counts / counts.sum()
    assert ((shares > 0.27) & (shares < 0.4)).all()
