"""Returns, lengths, costs and successes of episodes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from surefoot.rollout.episode_statistics import EpisodeTracker
from surefoot.vector.guard import UNTOLD


def step(
    tracker: EpisodeTracker,
    reward: list[float],
    done: list[bool],
    valid: list[bool] | None = None,
    costs: list[float] | None = None,
    successes: dict[int, bool] | None = None,
) -> None:
    rows = np.array([True] * len(reward) if valid is None else valid)
    tracker.step(np.array(reward), rows, None if costs is None else np.array(costs))
    if any(done):
        envs = np.flatnonzero(done)
        told = [(successes or {}).get(env) for env in envs.tolist()]
        tracker.end(envs, np.array([UNTOLD if success is None else success for success in told], np.int8))


def test_a_finished_episode_is_added_up_and_a_new_one_begins() -> None:
    tracker = EpisodeTracker(2)
    step(tracker, [1.0, 10.0], [False, False])
    step(tracker, [2.0, 20.0], [True, False])
    step(tracker, [5.0, 30.0], [True, True])
    assert [(e.env, e.total, e.length) for e in tracker.recent] == [(0, 3.0, 2), (0, 5.0, 1), (1, 60.0, 3)]
    assert tracker.summary() == {
        "rollout/ep_rew_mean": (3.0 + 5.0 + 60.0) / 3,
        "rollout/ep_len_mean": 2.0,
        "rollout/episodes": 3.0,
    }


def test_reset_rows_add_no_length() -> None:
    tracker = EpisodeTracker(1)
    step(tracker, [1.0], [False])
    step(tracker, [0.0], [False], valid=[False])
    step(tracker, [1.0], [True])
    assert tracker.recent[0].length == 2


def test_there_is_no_summary_before_the_first_episode_has_ended() -> None:
    tracker = EpisodeTracker(1)
    step(tracker, [1.0], [False])
    assert tracker.summary() == {}


def test_costs_and_successes_are_told_only_if_the_env_gives_them() -> None:
    tracker = EpisodeTracker(2)
    step(tracker, [0.0, 0.0], [True, True], costs=[0.5, 1.5], successes={0: True})
    found = tracker.summary()
    assert found["rollout/ep_cost_mean"] == 1.0
    assert found["rollout/success_rate"] == 1.0
    plain = EpisodeTracker(1)
    step(plain, [0.0], [True])
    assert plain.summary().keys().isdisjoint({"rollout/ep_cost_mean", "rollout/success_rate"})


def test_the_summary_is_over_the_last_episodes() -> None:
    tracker = EpisodeTracker(1, window=3)
    for total in (100.0, 1.0, 2.0, 3.0):
        step(tracker, [total], [True])
    assert tracker.summary()["rollout/ep_rew_mean"] == 2.0
    assert tracker.summary()["rollout/episodes"] == 4.0


def test_open_and_finished_episodes_survive_saving_as_json() -> None:
    tracker, twin = EpisodeTracker(2, window=4), EpisodeTracker(2, window=4)
    step(tracker, [0.1, 0.2], [True, False], costs=[0.3, 0.7], successes={0: False})
    step(tracker, [0.1, 0.2], [False, False], costs=[0.3, 0.7])
    saved: dict[str, Any] = json.loads(json.dumps(tracker.state_dict()))
    twin.load_state_dict(saved)
    for each in (tracker, twin):
        for _ in range(5):
            step(each, [0.1, 0.2], [True, True], costs=[0.3, 0.7], successes={1: True})
    assert twin.summary() == tracker.summary()
    assert list(twin.recent) == list(tracker.recent)


def test_dropped_open_episodes_leave_the_finished_ones() -> None:
    tracker = EpisodeTracker(1)
    step(tracker, [1.0], [True], costs=[1.0])
    step(tracker, [100.0], [False], costs=[100.0])
    tracker.drop_open()
    step(tracker, [3.0], [True], costs=[3.0])
    assert [(e.total, e.length, e.cost) for e in tracker.recent] == [(1.0, 1, 1.0), (3.0, 1, 3.0)]
