"""Factored actions with masks and a memory.

A lamp shows for one step which of three doors holds the prize; then it is dark. The action has two heads: `op` (WAIT or
OPEN) and `door`, which is active after OPEN only. Masks keep the agent from opening while the lamp is on, and one door
is always locked. To open the right door in the dark takes a memory. Prints the mean return (1 is the best, 1/2 guesses
between the two doors that can be opened), a played episode, and a metric of the head `door`.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from surefoot import PPO, HeadSpec

TIMESTEPS = 25_000
WAIT, OPEN = 0, 1
DARK_STEPS = 3
"""Steps in the dark before a door can be opened."""


class Doors(gymnasium.Env[Any, Any]):
    """Observed are the lamp of each door (lit in the first step only) and which door is locked."""

    observation_space = spaces.Box(0.0, 1.0, (6,), np.float32)
    action_space = spaces.MultiDiscrete([2, 3])
    action_heads = (HeadSpec("op", ("WAIT", "OPEN")), HeadSpec("door", 3, relevant_when={"op": "OPEN"}))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._prize, self._locked = self.np_random.permutation(3)[:2]
        self._steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        opens = action[0] == OPEN
        reward = float(opens and action[1] == self._prize)
        return self._observe(), reward, bool(opens), self._steps >= 2 * DARK_STEPS, {}

    def action_masks(self) -> dict[str, Any]:
        """True is legal; one array for each head."""
        return {"op": np.array([True, self._steps >= DARK_STEPS]), "door": np.arange(3) != self._locked}

    def _observe(self) -> Any:
        lamps = (np.arange(3) == self._prize) & (self._steps == 0)
        return np.concatenate([lamps, np.arange(3) == self._locked]).astype(np.float32)


def main(timesteps: int = TIMESTEPS) -> None:
    agent = PPO(
        Doors,
        n_envs=16,
        seed=0,
        n_steps=64,
        batch_size=128,
        learning_rate=1e-3,
        ent_coef=0.01,
        memory=dict(kind="lstm", hidden_size=32),
    )
    agent.learn(timesteps)
    print(f"mean return: {agent.evaluate(100, seed=1).mean:.2f}")

    env = Doors()
    observation, _ = env.reset(seed=3)
    state, ended, played = None, False, []
    while not ended:  # predict hands the memory's state out, and takes it back
        action, state = agent.predict(observation, state, deterministic=True, action_masks=env.action_masks())
        played.append("WAIT" if action[0] == WAIT else f"OPEN {action[1]}")
        observation, reward, terminated, truncated, _ = env.step(action)
        ended = terminated or truncated
    print(f"an episode: {', '.join(played)}; reward {reward:g}")
    print(f"entropy of the choice of a door: {agent.logger_values['train/head/door/entropy']:.2f} nats")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timesteps", type=int, default=TIMESTEPS)
    main(parser.parse_args().timesteps)
