"""Agents saved by earlier versions load and act alike (Y01).

`fixtures/format_1` was written by the code of commit f35c66a: a run on Pendulum with a Gaussian policy and
normalizers, a recurrent agent on CartPole, a factored one on Greenhouse, and one whose action is a choice and a Box.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from surefoot import PPO
from surefoot.cli.main import main
from surefoot.errors import SurefootWarning

FORMAT_1 = Path(__file__).resolve().parents[1] / "fixtures" / "format_1"
SAVED = {
    "pendulum": FORMAT_1 / "pendulum" / "checkpoints" / "000000000512",
    "recurrent": FORMAT_1 / "recurrent",
    "factored": FORMAT_1 / "factored",
    "mixed": FORMAT_1 / "mixed",
}


class Mixed(gymnasium.Env[Any, Any]):
    """The env of the agent ``mixed``: a choice and a number."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Dict({"go": spaces.Discrete(2), "level": spaces.Box(-3.0, 5.0, (1,), np.float32)})
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        observation = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return observation, -abs(float(action["level"][0]) - 2), False, self._steps >= 8, {}


def load(name: str) -> PPO:
    if name != "mixed":
        return PPO.load(SAVED[name])
    with pytest.warns(SurefootWarning, match="new episodes: the state of its envs was not saved"):
        return PPO.load(SAVED[name], env=Mixed)


@pytest.mark.parametrize("name", SAVED)
def test_an_agent_of_format_1_acts_as_it_did(name: str) -> None:
    agent = load(name)
    expected = json.loads((FORMAT_1 / f"{name}.json").read_text(encoding="utf-8"))
    assert agent.num_timesteps == expected["num_timesteps"]
    state, start = None, np.ones(1, np.bool_)
    for step in expected["steps"]:
        observation = np.array(step["observation"], np.float32)
        action, state = agent.predict(observation, state=state, episode_start=start, deterministic=True)
        start = np.zeros(1, np.bool_)
        if isinstance(step["action"], dict):
            assert action["go"] == step["action"]["go"]
            np.testing.assert_allclose(action["level"], step["action"]["level"], rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_allclose(action, step["action"], rtol=1e-5, atol=1e-5)
        if "state" in step:
            np.testing.assert_allclose(state, step["state"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["pendulum", "mixed"])
def test_a_gaussian_of_format_1_explores_as_widely_as_it_did(name: str) -> None:
    agent = load(name)
    expected = json.loads((FORMAT_1 / f"{name}.json").read_text(encoding="utf-8"))
    # Far inside the box, so that clipping takes no part of the spread away.
    step = min(expected["steps"], key=lambda step: abs(_number(step["action"])))
    rows = np.repeat(np.array([step["observation"]], np.float32), 4000, 0)
    actions, _ = agent.predict(rows)
    sample = np.ravel(actions["level"] if isinstance(actions, dict) else actions)
    inside = np.abs(sample - _number(step["action"])) < 0.5
    # P(|z| < 0.5/σ) of a normal variable tells σ whatever the clip does further out.
    std = expected["action_std"][-1]
    expected_share = 1.0 - 2.0 * _upper_tail(0.5 / std)
    assert abs(inside.mean() - expected_share) < 0.04


@pytest.mark.parametrize("name", SAVED)
def test_an_agent_of_format_1_goes_on_learning(name: str) -> None:
    agent = load(name)
    before = agent.num_timesteps
    agent.learn(64)
    assert agent.num_timesteps == before + 64


def test_a_run_of_format_1_is_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(FORMAT_1 / "pendulum", run)
    main(["resume", str(run), "--total-timesteps", "576", "--quiet"])
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["000000000576"]


def _number(action: Any) -> float:
    return float(action["level"][0] if isinstance(action, dict) else action[0])


def _upper_tail(z: float) -> float:
    """P(Z > z) of a standard normal variable."""
    from math import erfc, sqrt

    return 0.5 * erfc(z / sqrt(2.0))
