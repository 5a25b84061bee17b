"""Worlds whose best policy under a limit is known, in short runs; `make bench-risk` makes long ones (R02, R03)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from risk_limits import train
from risk_report import flips, judge
from risk_worlds import WORLDS

from surefoot.train.ppo import PPO

UPDATES = {"arm": 70, "portfolio": 400, "cliff": 120, "costly": 60}
TOLERANCE = 0.1
"""Of the limit and of the best feasible return: twice what the long runs are held to."""


@pytest.mark.parametrize("name", WORLDS)
def test_the_policy_is_about_the_best_one_without_a_limit_and_under_two(name: str) -> None:
    world = WORLDS[name]()
    world = replace(world, updates=UPDATES[name], settings=world.settings | {"n_envs": 64})
    found = [judge(world, limit, [train(world, limit, 0, 4000)]) for limit in (None, *world.limits)]
    for outcome in found:
        assert outcome.losses[0] <= TOLERANCE, outcome
        assert max(outcome.violations, default=0.0) <= TOLERANCE, outcome
    assert flips(found)


def test_a_tail_is_learned_from_rollouts_shorter_than_an_episode() -> None:
    """R08: twelve steps an episode, four a rollout. The tail alone says: nothing into the asset that crashes.

    An agent that is only credited for episodes that end in the rollout learns from the last four steps alone.
    """
    agent = PPO(
        "surefoot/CrashPortfolio-v0",
        env_kwargs={"n_steps": 12, "crash": -6.0},
        n_envs=128,
        seed=0,
        n_steps=4,
        batch_size=256,
        n_epochs=8,
        learning_rate="linear(3e-3, 0)",
        policy={"hidden_sizes": (16,), "log_std_init": -1.0},
        risk={"kind": "cvar_objective", "alpha": 0.2, "cvar_weight": 1.0},
        compile=False,
    )
    agent.learn(40_000)
    times = np.linspace(-1.0, 0.8, 12, dtype=np.float32)[:, None]
    weights = agent.predict(times, deterministic=True)[0]
    assert weights.max() < 0.15
    assert agent.logger_values["risk/tail_episodes"] > 0.0
