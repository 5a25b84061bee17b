"""Worlds that need a memory: nothing but the first observation tells the answer."""

from __future__ import annotations

import numpy as np
import pytest

from surefoot.worlds import Recall, TMaze


@pytest.mark.parametrize("k", [0, 5, 50])
def test_the_symbol_is_shown_once_then_distractors_then_the_question(k: int) -> None:
    env = Recall(k=k)
    observation, _ = env.reset(seed=0)
    first = int(np.argmax(observation[:4]))
    assert observation[4:].tolist() == [1, 0]
    shown = []
    for _ in range(k):
        observation, reward, terminated, truncated, _ = env.step(np.int64(first))
        assert (reward, terminated, truncated) == (0.0, False, False), "only the answer pays"
        assert observation[4:].tolist() == [0, 0]
        shown.append(int(np.argmax(observation[:4])))
    observation, *_ = env.step(np.int64(first))
    assert observation.tolist() == [0, 0, 0, 0, 0, 1]
    _, reward, terminated, _, _ = env.step(np.int64(first))
    assert (reward, terminated) == (1.0, True)
    assert k < 50 or len(set(shown)) == 4


def test_a_wrong_answer_pays_nothing_and_ends_too() -> None:
    env = Recall(k=0)
    observation, _ = env.reset(seed=0)
    env.step(np.int64(0))
    wrong = (int(np.argmax(observation[:4])) + 1) % 4
    assert env.step(np.int64(wrong))[1:3] == (0.0, True)


def test_the_sign_is_seen_at_the_start_only() -> None:
    env = TMaze(length=3)
    for seed in range(8):
        observation, _ = env.reset(seed=seed)
        sign = int(np.argmax(observation[:2])) + 1
        for _ in range(3):
            assert env.step(np.int64(sign))[1:3] == (0.0, False), "turning in the corridor does nothing"
            observation, *_ = env.step(np.int64(0))
            assert observation[:2].tolist() == [0, 0]
        assert observation[2:].tolist() == [0, 1]
        assert env.step(np.int64(0))[1:3] == (0.0, False)
        assert env.step(np.int64(sign))[1:3] == (1.0, True)


def test_the_walk_is_cut_at_the_time_limit() -> None:
    env = TMaze(length=3, time_limit=2)
    env.reset(seed=0)
    assert env.step(np.int64(0))[3] is False
    assert env.step(np.int64(0))[3] is True
