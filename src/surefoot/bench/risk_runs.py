"""Trains one agent of `surefoot bench risk` and plays with it."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surefoot.bench.risk_cases import WORLDS, World
from surefoot.errors import RunError
from surefoot.math.risk import cvar_from_samples
from surefoot.rollout.make import env_factory
from surefoot.spaces import Array
from surefoot.store import write_json_atomic
from surefoot.train.ppo import PPO
from surefoot.vector.group import EnvGroup
from surefoot.worlds import register_envs

EVALUATION_SEED = 1_000_003
EVALUATION_ENVS = 100
PLAIN_CRITIC = {"popart": False}
"""As the kept runs had it."""


@dataclass(frozen=True)
class Job:
    """One run: a world, a limit (None: without) and a seed."""

    world: str
    limit: float | None
    seed: int

    def path(self, results: Path) -> Path:
        """Where its record is kept."""
        name = "neutral" if self.limit is None else f"limit{self.limit:g}"
        return results / "risk" / self.world / f"{name}-seed{self.seed}.json"


@dataclass(frozen=True)
class Played:
    """Whole episodes of a policy that samples its actions, as it did in training; all [M]."""

    returns: Array
    costs: Array
    first_actions: Array


def run(job: Job, episodes: int) -> dict[str, Any]:
    """Train and evaluate; the record as JSON values."""
    return {"world": job.world} | train(WORLDS[job.world](), job.limit, job.seed, episodes)


def train(world: World, limit: float | None, seed: int, episodes: int) -> dict[str, Any]:
    """One agent, and what it does in so many episodes."""
    torch.set_num_threads(1)
    register_envs()
    began = time.perf_counter()
    agent = PPO(world.env, seed=seed, critic=PLAIN_CRITIC, **world.all_settings(limit))
    agent.learn(world.timesteps())
    seconds = time.perf_counter() - began
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
        "seconds": seconds,
        "versions": {"surefoot": version("surefoot"), "torch": version("torch"), "python": platform.python_version()},
    }


def settings_of(world: World, limit: float | None) -> dict[str, Any]:
    """What decides a run, as JSON gives it back."""
    found: dict[str, Any] = json.loads(json.dumps(world.all_settings(limit) | {"updates": world.updates}))
    return found


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


def kept(job: Job, results: Path) -> dict[str, Any] | None:
    """Its record, or None if it was not run yet; an error if it was made with other settings than today's."""
    path = job.path(results)
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text())
    had, wanted = record["settings"], settings_of(WORLDS[job.world](), job.limit)
    if different := sorted(key for key in had.keys() | wanted.keys() if had.get(key) != wanted.get(key)):
        raise RunError(f"{path} was made with other settings ({', '.join(different)}); delete it to run again")
    return record


def keep(record: dict[str, Any], path: Path) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomic(path, record)
