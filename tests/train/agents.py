"""Small agents and small environments that the tests of training share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from torch import Tensor

from surefoot import PPO
from surefoot.rollout.make import EnvLike

Info = dict[str, Any]

SMALL: dict[str, Any] = {
    "n_steps": 16,
    "batch_size": 16,
    "n_epochs": 2,
    "compile": False,
    "policy": {"hidden_sizes": (8,)},
}
"""Settings of an agent that is made and trained in some ten milliseconds."""
ROWS = 32
"""Env steps of one rollout of `small`."""


def small(env: EnvLike = "CartPole-v1", **settings: Any) -> PPO:
    """A small agent with two envs; settings win over the defaults, the policy's one by one."""
    merged = SMALL | {"n_envs": 2} | settings
    merged["policy"] = SMALL["policy"] | settings.get("policy", {})
    return PPO(env, **merged)


def parameters(agent: PPO) -> Tensor:
    """A copy of all weights."""
    return agent.learner.flat.values.detach().clone()


def same_training(left: PPO, right: PPO) -> bool:
    """Whether two agents have equal weights, bit for bit, and the same count of steps."""
    equal = parameters(left).equal(parameters(right))
    return equal and left.num_timesteps == right.num_timesteps


def lines(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def checkpoints(run: Path) -> list[int]:
    """Steps of the checkpoints of a run."""
    return sorted(int(path.name) for path in (run / "checkpoints").iterdir() if path.name.isdigit())


class Random(gymnasium.Env[Any, Any]):
    """Random observations of any space, random rewards, episodes cut after ``length`` steps."""

    def __init__(
        self,
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
        length: int = 8,
        scale: float = 1.0,
    ) -> None:
        box = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.observation_space = box if observation_space is None else observation_space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self._length, self._scale = length, scale
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self._steps += 1
        reward = self._scale * float(self.np_random.normal())
        return self.observation_space.sample(), reward, False, self._steps >= self._length, {}


def image_space(side: int = 12) -> spaces.Box:
    """Small colour images."""
    return spaces.Box(0, 255, (side, side, 3), np.uint8)


def dict_space() -> spaces.Dict:
    """Numbers and a category."""
    return spaces.Dict({"numbers": spaces.Box(-1.0, 1.0, (2,), np.float32), "kind": spaces.Discrete(3)})
