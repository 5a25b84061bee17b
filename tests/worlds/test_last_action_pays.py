"""The last action pays in its own step, and nothing else pays (A10)."""

from __future__ import annotations

import numpy as np

from surefoot.worlds import LastActionPays


def test_only_the_answer_to_the_last_cue_decides_the_return() -> None:
    env = LastActionPays(n_actions=3, episode_length=3)
    for right in (True, False):
        observation, _ = env.reset(seed=1)
        for step in range(3):
            assert observation[-1] == float(step == 2)
            cue = int(np.argmax(observation[:-1]))
            answer = cue if right or step < 2 else (cue + 1) % 3
            observation, reward, terminated, _, _ = env.step(np.int64(answer))
            assert reward == float(right and step == 2)
            assert terminated == (step == 2)
