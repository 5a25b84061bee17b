"""A limit on the worst outcomes, in a world whose best policy is known.

`SafeOrRisky` is one choice: a sure 1, or a gamble that pays 10 and with probability 0.4 loses 4. The best mean return
is to gamble always. With a limit of -1 on CVaR (the mean of the worst 40 % of the returns) the best policy gambles in a
known share of the episodes. Prints, without and with the limit, the share that was learned beside the best one, the
mean return and CVaR.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from surefoot import PPO
from surefoot.worlds import SafeOrRisky

TIMESTEPS = 60_000
ALPHA, LIMIT = 0.4, -1.0


def main(timesteps: int = TIMESTEPS) -> None:
    limit = dict(kind="cvar_constraint", alpha=ALPHA, limit_per_episode=LIMIT)
    report("without a limit", 1.0, timesteps, {})
    report(f"CVaR >= {LIMIT:g}", SafeOrRisky().best_share(ALPHA, LIMIT), timesteps, limit)


def report(name: str, best: float, timesteps: int, risk: dict[str, Any]) -> None:
    """Train, and print what was learned."""
    agent = PPO(
        "surefoot/SafeOrRisky-v0",
        n_envs=32,  # CVaR is of whole episodes: let many of them end in a rollout
        n_steps=16,
        batch_size=512,
        n_epochs=8,
        gamma=1.0,
        learning_rate="linear(3e-3, 0)",
        seed=0,
        policy=dict(hidden_sizes=(16,)),
        risk=risk,
    )
    agent.learn(timesteps)
    actions, _ = agent.predict(np.zeros((2000, 1)))  # the best policy is a mixed one: sample it
    returns = np.sort(agent.evaluate(2000, seed=1, deterministic=False).returns)
    worst = returns[: round(ALPHA * len(returns))]
    print(
        f"{name}: gambles in {np.mean(actions):.2f} of the episodes (best {best:.2f}), "
        f"mean return {returns.mean():.2f}, CVaR {worst.mean():.2f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timesteps", type=int, default=TIMESTEPS)
    main(parser.parse_args().timesteps)
