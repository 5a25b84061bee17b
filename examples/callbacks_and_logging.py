"""Callbacks and logging.

Trains with a run directory, an evaluation every so often that keeps the best agent, and a callback of one's own that
logs a metric and stops once the policy has become sure of itself. Then reads `metrics.jsonl` and prints a line for each
evaluation, why training ended, and the return of the best agent.
"""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path

from surefoot import PPO
from surefoot.algo.learner import IterationRecord
from surefoot.train.callbacks import Callback, EvaluationCallback

TIMESTEPS = 40_000


class StopWhenSure(Callback):
    """Stops training once the mean entropy of the policy is below a limit."""

    def __init__(self, limit: float) -> None:
        self.limit, self.stopped_at = limit, 0

    def on_update(self, agent: PPO, record: IterationRecord) -> bool | None:
        agent.log({"own/entropy_above_limit": record.update.entropy - self.limit})  # joins the line of this update
        if record.update.entropy >= self.limit:
            return None
        self.stopped_at = agent.num_timesteps
        return False  # stops


def main(timesteps: int = TIMESTEPS) -> None:
    run = Path("runs") / f"cartpole-{datetime.now():%Y%m%d-%H%M%S}"  # a new directory for each run
    evaluation = EvaluationCallback(every=max(timesteps // 5, 1), n_episodes=10, best_path=run / "best")
    sure = StopWhenSure(limit=0.4)
    agent = PPO("CartPole-v1", n_envs=8, seed=0, n_steps=128, learning_rate=1e-3)
    agent.learn(timesteps, callback=[evaluation, sure], run_dir=run)

    for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()):
        if "eval/mean_reward" in line:
            print(f"step {line['step']}: return {line['eval/mean_reward']:.1f}, entropy {line['train/entropy']:.2f}")
    print(f"stopped at step {sure.stopped_at}: sure enough" if sure.stopped_at else "trained to the end")
    print(f"best agent: {PPO.load(run / 'best').evaluate(10, seed=1).mean:.1f}")
    print(f"metrics, TensorBoard events and checkpoints are in {run}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timesteps", type=int, default=TIMESTEPS)
    main(parser.parse_args().timesteps)
