"""What bounds the speed, where the time goes, and how it grows: the smaller measurements of `throughput.py`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gymnasium as gym
import numpy as np
import torch
from throughput_systems import WORKLOADS, Workload, surefoot
from torch import nn

from surefoot import PPO
from surefoot.algo import learner as learner_module
from surefoot.algo.record import UpdateRecord
from surefoot.config.schema import RunConfig
from surefoot.rollout.make import make_envs
from surefoot.train.run import Captured, Run


class SlowEnv(gym.Env[Any, Any]):
    """One millisecond of waiting per step."""

    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(0.001)
        return np.zeros(4, np.float32), 0.0, False, False, {}


def best_of(repeats: int, work: Callable[[], object]) -> float:
    """Median seconds."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def limit_seconds() -> list[str]:
    """Share of the limit: bare env stepping plus bare matrix work of the same shapes."""
    torch.set_num_threads(1)
    workload = WORKLOADS["wide"]
    train, _ = surefoot(workload, compile=True)
    train(2)
    ours = best_of(5, lambda: train(1))
    stepping, matrices = bare_stepping(workload), bare_matrices(workload)
    limit = stepping + matrices
    return [
        "## Share of the limit",
        "",
        "The limit is bare env stepping plus the bare matrix products of acting and learning, same shapes, one thread.",
        "",
        "| workload | env stepping | matrices | limit, steps/s | whole iteration | share of the limit | goal |",
        "|---|---|---|---|---|---|---|",
        f"| wide | {stepping * 1e3:.0f} ms | {matrices * 1e3:.0f} ms | {workload.env_steps / limit:.0f} "
        f"| {ours * 1e3:.0f} ms | {limit / ours:.0%} | ≥ 70 % |",
        "",
    ]


def bare_stepping(workload: Workload) -> float:
    """Seconds of env steps alone for one iteration."""
    envs = [gym.make(workload.env, disable_env_checker=True) for _ in range(workload.n_envs)]
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (workload.n_steps, workload.n_envs))
    for i, env in enumerate(envs):
        env.reset(seed=i)

    def work() -> None:
        for row in actions:
            for env, action in zip(envs, row, strict=True):
                *_, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()

    return best_of(3, work)


def bare_matrices(workload: Workload) -> float:
    """Seconds of linear layers, forward and backward, that one iteration cannot do without."""
    env = gym.make(workload.env)
    n_inputs, n_actions = gym.spaces.flatdim(env.observation_space), gym.spaces.flatdim(env.action_space)
    sizes = [n_inputs, *workload.hidden]

    def tower(out: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for a, b in pairwise(sizes):
            layers += [nn.Linear(a, b), nn.Tanh()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], out))

    actor, critic = tower(n_actions), tower(1)
    acting, learning = torch.randn(workload.n_envs, n_inputs), torch.randn(workload.batch_size, n_inputs)

    def work() -> None:
        with torch.inference_mode():
            for _ in range(workload.n_steps):
                actor(acting)
        for _ in range(workload.gradient_steps):
            (actor(learning).sum() + critic(learning).sum()).backward()

    return best_of(3, work)


def phases() -> list[str]:
    """Where the time of one iteration goes."""
    torch.set_num_threads(1)
    agent = PPO("CartPole-v1", compile=True)
    agent.learn(2 * 2048)
    learner = agent.learner
    spent = dict.fromkeys(("env step", "inference", "buffer", "values and GAE", "update", "logging"), 0.0)

    def timed(owner: Any, name: str, phase: str) -> None:
        call = getattr(owner, name)

        def wrapped(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                spent[phase] += time.perf_counter() - began

        setattr(owner, name, wrapped)

    timed(learner.envs, "step", "env step")
    timed(learner.collector, "_act", "inference")
    timed(learner.collector, "_store", "buffer")
    timed(learner.collector, "_observe", "buffer")
    timed(learner.updater, "update", "update")
    timed(learner_module, "estimate", "values and GAE")
    timed(UpdateRecord, "metrics", "logging")
    began = time.perf_counter()
    agent.learn(8 * 2048)
    whole = time.perf_counter() - began
    spent["rest"] = whole - sum(spent.values())
    rows = [f"| {phase} | {seconds / 8 * 1e3:.1f} ms | {seconds / whole:.0%} |" for phase, seconds in spent.items()]
    return [
        "## Where the time goes",
        "",
        "CartPole-v1, 8 envs × 256 steps, minibatch 64, 10 epochs, compiled; per iteration of 2,048 env steps.",
        "",
        "| phase | time | share |",
        "|---|---|---|",
        *rows,
        "",
    ]


def checkpoint_cost() -> list[str]:
    """What saving takes of the wall time: at every update, and at the default interval."""
    default = RunConfig().checkpoint_every
    with tempfile.TemporaryDirectory() as folder:
        agent = PPO("CartPole-v1", compile=False, run={"checkpoint_every": 1, "sinks": ()})
        saving: list[float] = []
        save = Run.save

        def timed(run: Run, captured: Captured) -> Path:
            began = time.perf_counter()
            try:
                return save(run, captured)
            finally:
                saving.append(time.perf_counter() - began)

        began = time.perf_counter()
        with patch.object(Run, "save", timed):
            agent.learn(20 * 2048, run_dir=Path(folder, "run"))
        whole = time.perf_counter() - began
    iteration = (whole - sum(saving)) / 20
    per_save = statistics.median(saving)
    share = per_save / (per_save + iteration * max(1, default // 2048))
    return [
        "## Checkpoints",
        "",
        f"A checkpoint, written, synced and read back, takes {per_save * 1e3:.0f} ms; an eager iteration of 2,048 env "
        f"steps {iteration * 1e3:.0f} ms. Saving after every update is {per_save / (per_save + iteration):.1%} of the "
        f"wall time, at the default interval of {default:,} env steps {share:.2%} (goal ≤ 1 %).",
        "",
    ]


def many_envs() -> list[str]:
    """Cost per env step from 8 to 1024 envs in this process."""
    rows = []
    for n in (8, 64, 256, 1024):
        agent = PPO("CartPole-v1", n_envs=n, n_steps=16, batch_size=min(1024, 16 * n), n_epochs=1, compile=False)
        agent.learn(16 * n)
        seconds = best_of(5, lambda agent=agent, n=n: agent.learn(16 * n))  # type: ignore[misc]
        rows.append(f"| {n} | {seconds / (16 * n) * 1e6:.1f} µs |")
    return ["## Many envs in one process", "", "| envs | per env step |", "|---|---|", *rows, ""]


def worker_scaling() -> list[str]:
    """Workers on an env of 1 ms per step."""
    speeds = {}
    for workers in (1, 2):
        envs = make_envs(SlowEnv, 8, {}, workers)
        envs.reset(0)
        actions = np.zeros(8, np.int64)
        for _ in range(10):
            envs.step(actions)
        seconds = best_of(5, lambda envs=envs, actions=actions: [envs.step(actions) for _ in range(40)])  # type: ignore[misc]
        speeds[workers] = 8 * 40 / seconds
        envs.close()
    return [
        "## Worker processes",
        "",
        "An env of 1 ms per step, 8 envs.",
        "",
        "| workers | env steps/s |",
        "|---|---|",
        *(f"| {workers} | {speed:.0f} |" for workers, speed in speeds.items()),
        "",
        f"1 → 2 workers: {speeds[2] / speeds[1]:.2f} × (goal ≥ 1.7).",
        "",
    ]


def import_times() -> list[str]:
    """Start-up: importing, and the command line's help."""

    def run(*command: str) -> float:
        return best_of(5, lambda: subprocess.run(command, check=True, capture_output=True))

    torch_seconds = run(sys.executable, "-c", "import torch")
    ours = run(sys.executable, "-c", "from surefoot import PPO")
    bare = run(sys.executable, "-c", "import surefoot")
    shown = run(sys.executable, "-m", "surefoot", "--help")
    return [
        "## Start-up",
        "",
        "| what | seconds | goal |",
        "|---|---|---|",
        f"| `import torch` | {torch_seconds:.2f} | |",
        f"| `import surefoot` | {bare:.2f} ({bare / torch_seconds:.2f} × torch) | ≤ 1.5 × |",
        f"| `from surefoot import PPO` | {ours:.2f} ({ours / torch_seconds:.2f} × torch) | ≤ 1.5 × |",
        f"| `surefoot --help` | {shown:.2f} | ≤ 1 |",
        "",
    ]
