"""An env and a network of your own.

`Docking` is a whole `gymnasium.Env`: a craft must come to rest at the centre of a line. The agent gets the class, so
that it can make as many as it needs. `Residual` is a `torch.nn.Module` that stands in place of the hidden layers, once
in the actor and once in the critic. Prints the size of the networks and the mean return before and after training (the
best is a little below 0: one starts away from the centre).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from surefoot import PPO
from surefoot.spaces import Layout

TIMESTEPS = 40_000


class Docking(gymnasium.Env[Any, Any]):
    """Observed are position and velocity, the action is a thrust. The clock truncates, leaving the line terminates."""

    def __init__(self, time_limit: int = 50) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-3.0, 3.0, (1,), np.float32)
        self._time_limit = time_limit

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)  # makes self.np_random, the one source of chance
        self._state = self.np_random.uniform(-1.0, 1.0, 2)
        self._steps = 0
        return self._state.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        position, velocity = self._state
        velocity = velocity + 0.1 * float(action[0])
        self._state = np.array([position + 0.1 * velocity, velocity])
        self._steps += 1
        is_lost = abs(self._state[0]) > 3.0
        reward = -float(np.square(self._state).sum()) - (100.0 if is_lost else 0.0)
        return self._state.astype(np.float32), reward, bool(is_lost), self._steps >= self._time_limit, {}


class Residual(nn.Module):
    """Two layers with a shortcut. It is made from the layout of the observation and says how wide its features are."""

    n_outputs = 32

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        (leaf,) = layout.leaves  # a Dict observation has several, each with its name
        self.into, self.inner = nn.Linear(leaf.shape[0], 32), nn.Linear(32, 32)

    def forward(self, observation: Mapping[str, Tensor]) -> Tensor:
        x = torch.tanh(self.into(observation["obs"]))
        return x + torch.tanh(self.inner(x))


def main(timesteps: int = TIMESTEPS) -> None:
    agent = PPO(
        Docking,
        n_envs=8,
        seed=0,
        n_steps=128,
        learning_rate="linear(1e-3, 0)",
        normalize_observations=True,  # the statistics are part of the agent
        env_kwargs=dict(time_limit=50),
        policy=dict(encoder=Residual, log_std_init=-0.5),
    )
    print(f"parameters of actor and critic: {sum(p.numel() for p in agent.learner.policy.parameters())}")
    print(f"before training: {agent.evaluate(10, seed=1).mean:.1f}")
    agent.learn(timesteps)
    print(f"after {agent.num_timesteps} env steps: {agent.evaluate(10, seed=1).mean:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timesteps", type=int, default=TIMESTEPS)
    main(parser.parse_args().timesteps)
