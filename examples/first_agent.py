"""A first agent: train, evaluate, save, load, predict.

Balances CartPole and prints three lines: the mean return of 10 episodes before training, the same after it (500 is the
best), and the action that the saved and loaded agent chooses for one observation.
"""

from __future__ import annotations

import argparse

from surefoot import PPO

TIMESTEPS = 50_000


def main(timesteps: int = TIMESTEPS) -> None:
    agent = PPO("CartPole-v1", n_envs=8, seed=0, n_steps=128)
    print(f"before training: {agent.evaluate(10, seed=1).mean:.1f}")

    agent.learn(timesteps)
    print(f"after {agent.num_timesteps} env steps: {agent.evaluate(10, seed=1).mean:.1f}")

    agent.save("first-agent")  # a directory: weights, optimizer, normalizers, random streams
    loaded = PPO.load("first-agent")  # acting needs no env
    observation = [0.0, 0.0, 0.1, 0.0]  # position, velocity, angle (the pole leans to the right), angular velocity
    action, _ = loaded.predict(observation, deterministic=True)
    print(f"the pole leans to the right, push: {('left', 'right')[action]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timesteps", type=int, default=TIMESTEPS)
    main(parser.parse_args().timesteps)
