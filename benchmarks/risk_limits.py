"""Do risk-neutral and constrained agents find the policies that are known to be best?

    python benchmarks/risk_limits.py --jobs 2
    python benchmarks/risk_limits.py --report

One JSON per run is kept under `benchmarks/results/risk/`; a run that is there is not run again, so the program may be
stopped and started at will.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kept_runs import RESULTS, Record, at_least_one, bring_up_to_date, parser_of
from risk_report import write_report
from risk_worlds import WORLDS, World
from training import timed

from surefoot import PPO
from surefoot.math.risk import cvar_from_samples
from surefoot.rollout.make import env_factory
from surefoot.spaces import Array
from surefoot.vector.group import EnvGroup
from surefoot.worlds import register_envs

SEEDS = (20, 21, 22, 23, 24)
EPISODES = 10_000
EVALUATION_SEED = 1_000_003
EVALUATION_ENVS = 100
PLAIN_CRITIC = {"popart": False}
"""As the kept runs had it."""


@dataclass(frozen=True)
class RiskJob:
    """One run: a world, a limit (None: without) and a seed."""

    world: str
    limit: float | None
    seed: int
    episodes: int = EPISODES

    def path(self) -> Path:
        name = "neutral" if self.limit is None else f"limit{self.limit:g}"
        return RESULTS / "risk" / self.world / f"{name}-seed{self.seed}.json"

    def run(self) -> Record:
        return {"world": self.world} | train(WORLDS[self.world](), self.limit, self.seed, self.episodes)


@dataclass(frozen=True)
class Played:
    """Whole episodes of a policy that samples its actions, as it did in training; all [M]."""

    returns: Array
    costs: Array
    first_actions: Array


def train(world: World, limit: float | None, seed: int, episodes: int) -> Record:
    """One agent, and what it does in so many episodes."""
    torch.set_num_threads(1)
    register_envs()
    agent = PPO(world.env, seed=seed, critic=PLAIN_CRITIC, **world.all_settings(limit))
    wall, _ = timed(lambda: agent.learn(world.timesteps()))
    played = play(agent, world.env, episodes, EVALUATION_SEED + seed)
    agent.close()
    return {
        "limit": limit,
        "seed": seed,
        "settings": settings_of(world, limit),
        "episodes": len(played.returns),
        "mean": float(played.returns.mean()),
        "limited": limited(world, played),
        "trait": float(world.measure(played.first_actions).mean()),
        "multiplier": agent.logger_values.get("risk/multiplier"),
        "env_steps": agent.num_timesteps,
        "wall_seconds": wall,
        "versions": {"surefoot": version("surefoot"), "torch": version("torch"), "python": platform.python_version()},
    }


def settings_of(world: World, limit: float | None) -> dict[str, Any]:
    """What decides a run, as JSON gives it back."""
    found: dict[str, Any] = json.loads(json.dumps(world.all_settings(limit) | {"updates": world.updates}))
    return found


def wanted_settings(record: Record) -> dict[str, Any]:
    return settings_of(WORLDS[record["world"]](), record["limit"])


def limited(world: World, played: Played) -> float:
    """The limited quantity: CVaR of the return, or mean cost."""
    if world.alpha is None:
        return float(played.costs.mean())
    return float(cvar_from_samples(torch.from_numpy(played.returns), world.alpha))


def play(agent: PPO, env: str, episodes: int, seed: int) -> Played:
    """The same number of episodes in each of a hundred envs, so that short ones are not preferred."""
    factory = env_factory(env, {})
    envs = EnvGroup([factory() for _ in range(EVALUATION_ENVS)])
    observation = envs.reset(seed)
    n = envs.n_envs
    each = -(-episodes // n)
    totals, costs, counts = np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
    first = np.ones(n, np.bool_)
    played: list[tuple[float, float]] = []
    actions_seen: list[Array] = []
    while counts.min() < each:
        actions = agent.predict(observation["obs"], deterministic=False)[0]
        actions_seen.append(actions[first & (counts < each)])
        step = envs.step(actions)
        observation = step.observation
        totals += step.reward
        costs += [float(info.get("cost", 0.0)) for info in step.infos]
        first = step.terminated | step.truncated
        for i in np.flatnonzero(first & (counts < each)):
            played.append((float(totals[i]), float(costs[i])))
        counts += first
        totals[first] = costs[first] = 0.0
    envs.close()
    returns, spent = np.array(played).T
    return Played(returns, spent, np.concatenate(actions_seen))


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, "risk.md")
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--episodes", type=at_least_one, default=EPISODES, help="of evaluation (default %(default)s)")
    options = parser.parse_args(arguments)
    jobs = [
        RiskJob(name, limit, seed, options.episodes)
        for name in options.worlds
        for limit in (None, *WORLDS[name]().limits)
        for seed in options.seeds
    ]
    report = partial(write_report, RESULTS, options.seeds, wanted_settings)
    return bring_up_to_date([] if options.report else jobs, options.jobs, wanted_settings, report)


if __name__ == "__main__":
    raise SystemExit(main())
