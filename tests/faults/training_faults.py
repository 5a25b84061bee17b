"""Faults of a whole training run: numbers that are not finite, signals, cuts and resumes, time."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gymnasium as gym
import numpy as np
import torch

from faults.worker_worlds import FALTERING
from surefoot import PPO
from surefoot.actions.distribution import Distribution
from surefoot.algo import estimate
from surefoot.config import from_flat
from surefoot.errors import NonFiniteError, SurefootError, SurefootWarning
from surefoot.math.returns import gae as advantages_of
from surefoot.store import CheckpointStore
from surefoot.train.checkpoint import from_snapshot
from surefoot.train.run import Run, latest_checkpoint
from surefoot.train.sinks import read_metrics

PLACES = ("observation", "reward", "action", "value", "log_prob", "advantage", "loss", "gradient")
VALUES = (float("nan"), float("inf"), float("-inf"))
MOMENTS = ("first", "middle", "last")
NAMED_AS = {place: place for place in PLACES} | {"log_prob": "log-probability", "loss": "value loss"}
"""What an error must contain."""
N_STEPS = 8


class Poisoned(gym.Wrapper[Any, Any, Any, Any]):
    """Gives one bad number at a given step."""

    def __init__(self, place: str, value: float, at: int) -> None:
        super().__init__(gym.make("Pendulum-v1"))
        self._place, self._value, self._at, self._steps = place, value, at, 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._steps == self._at:
            if self._place == "observation":
                observation = observation.copy()
                observation[1] = self._value
            elif self._place == "reward":
                reward = self._value
        self._steps += 1
        return observation, reward, terminated, truncated, info


def poison(agent: PPO, place: str, value: float, at: int, undo: ExitStack) -> None:
    """Let the inside of an agent give a bad number at env step or minibatch ``at``, until ``undo``."""
    learner = agent.learner
    calls = itertools.count()

    def spoil(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x.view(-1)[0] = value
        return x

    if place == "action":
        rows, rollout = learner.collector.rows, learner.collector.rollout
        sample = rows.sample

        def sampling(t: int, *given: Any) -> None:
            sample(t, *given)
            if next(calls) == at:
                rollout.action[t, 0] = value

        undo.enter_context(patch("surefoot.train.loop.accelerate"))  # which would put another in its place
        undo.enter_context(patch.object(rows, "sample", sampling))
    elif place == "log_prob":
        said = Distribution.head_log_prob

        def saying(*given: Any) -> Any:
            by_head = said(*given)
            by_head[at * learner.config.n_envs] = value
            return by_head

        undo.enter_context(patch.object(Distribution, "head_log_prob", saying))
    elif place == "value":
        critic = learner.policy.critic
        mean = critic.mean

        def spoiled_mean(prediction: torch.Tensor) -> torch.Tensor:
            values = mean(prediction).clone()
            if values.dim() == 2:  # of a rollout
                values[at, 0] = value
            return values

        critic.mean = spoiled_mean  # type: ignore[method-assign]
    elif place == "advantage":

        def spoiled_gae(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
            advantages, returns = advantages_of(*given)
            advantages[at, 0] = value
            return advantages, returns

        undo.enter_context(patch.object(estimate, "gae", spoiled_gae))
    elif place == "loss":
        critic = learner.policy.critic
        loss = critic.loss

        def spoiled_loss(*given: Any) -> Any:
            found = loss(*given)
            return found._replace(loss=found.loss + value) if next(calls) >= at else found

        critic.loss = spoiled_loss  # type: ignore[method-assign,assignment]
    elif place == "gradient":
        parameter = next(learner.policy.output.parameters())
        parameter.register_hook(lambda g: spoil(g) if next(calls) >= at else g)  # type: ignore[no-untyped-call]


def non_finite() -> dict[str, Any]:
    """3 values × 8 places × first, middle, last step: each is named, and no optimizer step follows it."""
    caught, missed = 0, []
    for place, value, moment in itertools.product(PLACES, VALUES, MOMENTS):
        at = {"first": 0, "middle": N_STEPS // 2, "last": N_STEPS - 1}[moment]
        problem = one_non_finite(place, value, at)
        caught += problem is None
        if problem is not None:
            missed.append(f"{place} {value} {moment}: {problem}")
    return {"cases": len(PLACES) * len(VALUES) * len(MOMENTS), "caught": caught, "missed": missed}


def one_non_finite(place: str, value: float, at: int) -> str | None:
    """Spoil env step or minibatch ``at``; what is wrong with how it was met, or None."""
    agent = PPO(
        partial(Poisoned, place, value, at),
        n_envs=1,
        n_steps=N_STEPS,
        batch_size=2,
        n_epochs=2,
        compile=False,
        max_nonfinite_updates=1,
    )
    with ExitStack() as undo:
        undo.callback(agent.close)
        poison(agent, place, value, at, undo)
        try:
            agent.learn(N_STEPS)
        except NonFiniteError as error:
            said = str(error)
        else:
            return "not caught"
    # What spoils a rollout is met before any optimizer step; what spoils minibatch k, after k of them.
    expected = at if place in ("loss", "gradient") else 0
    steps = int(agent.learner.optimizer.state_dict()["steps"])
    if steps != expected:
        return f"{steps} optimizer steps instead of {expected}"
    if not bool(torch.isfinite(agent.learner.flat.values).all()):
        return "the weights are not finite"
    return None if NAMED_AS[place] in said else f"not named in {said!r}"


def guard_cost() -> dict[str, Any]:
    """Share of a rollout's time that the checks take: time of the checks alone against time of the rollout."""
    agent = PPO("CartPole-v1", compile=False)
    learner = agent.learner
    learner.collect()
    guard = learner.collector._guard
    observation = {"obs": np.zeros((8, 4), np.float32)}
    reward, parameters, action = np.zeros(8), np.zeros((8, 2), np.float32), np.zeros(8, np.int64)
    log_prob = np.zeros((256, 8), np.float32)
    rollouts, checks = [], []
    for _ in range(15):
        began = time.perf_counter()
        learner.collect()
        rollouts.append(time.perf_counter() - began)
        began = time.perf_counter()
        for t in range(256):
            guard.observations(observation, t)
            guard.check(reward, "reward", t)
            guard.check(parameters, "action parameter", t)
            guard.check(action, "action", t)
        guard.rollout(log_prob, "log-probability", 0)
        checks.append(time.perf_counter() - began)
    whole = PPO("CartPole-v1", compile=False)
    whole.learn(2048)
    began = time.perf_counter()
    whole.learn(4096)
    iteration = (time.perf_counter() - began) / 2
    return {
        "of_rollout": float(np.median(checks) / np.median(rollouts)),
        "of_training": float(np.median(checks) / iteration),
    }


def signals(n: int = 100, seed: int = 0) -> dict[str, Any]:
    """SIGINT, SIGTERM and SIGHUP at random moments: exit code, time to exit, and a checkpoint that verifies."""
    chance = random.Random(seed)
    good, late, problems, slowest = 0, 0, [], 0.0
    for i in range(n):
        number = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder, "run")
            command = [sys.executable, "-m", "surefoot", "train", "CartPole-v1", "--run-dir", str(run), "--quiet"]
            command += ["--total-timesteps", "10000000", "--compile", "false", "--run.sinks"]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
            until(lambda run=run: any((run / "checkpoints").glob("[0-9]*")), 60)  # type: ignore[misc]
            time.sleep(chance.random() * 2)
            began = time.monotonic()
            process.send_signal(number)
            try:
                _, said = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                problems.append(f"{i}: hung")
                continue
            took = time.monotonic() - began
            slowest = max(slowest, took)
            late += took > 5
            found = CheckpointStore(run / "checkpoints").latest()
            if process.returncode == 128 + number and not found.skipped and str(found.path) in said:
                good += 1
            else:
                problems.append(f"{i}: exit {process.returncode}, said {said!r}")
    return {"signals": n, "good": good, "late": late, "slowest_seconds": slowest, "problems": problems}


CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "scalar, Discrete": ("CartPole-v1", {}),
    "scalar, Discrete, workers": ("CartPole-v1", {"workers": 2}),
    "scalar, Discrete, workers, env that raises": (FALTERING, {"workers": 2}),
    "scalar, Discrete, normalizers": ("CartPole-v1", {"normalize_observations": True, "normalize_rewards": True}),
    "scalar, Box": ("Pendulum-v1", {}),
    "scalar, Box, normalizers": ("Pendulum-v1", {"normalize_observations": True, "normalize_rewards": True}),
    "scalar, Box, tanh": ("Pendulum-v1", {"policy": {"distribution": "tanh_gaussian"}}),
    "scalar, Box, beta": ("Pendulum-v1", {"policy": {"distribution": "beta"}}),
    "scalar, shared, schedules": (
        "Acrobot-v1",
        {"policy": {"shared": True}, "learning_rate": "linear(1e-3, 0)", "ent_coef": "decay(0.01, 0.001, 4, 4)"},
    ),
    "scalar, Discrete, LSTM": ("CartPole-v1", {"memory": {"kind": "lstm", "hidden_size": 16}}),
    "scalar, Box, GRU, workers": ("Pendulum-v1", {"memory": {"kind": "gru", "hidden_size": 16}, "workers": 2}),
    "quantile, Discrete": ("CartPole-v1", {"critic": {"kind": "quantile"}}),
    "quantile twin, Box, normalizers": (
        "Pendulum-v1",
        {"critic": {"kind": "quantile", "twin": "heads"}, "normalize_observations": True},
    ),
    "categorical, Discrete, workers": ("CartPole-v1", {"critic": {"kind": "categorical"}, "workers": 2}),
    "quantile, Box, CVaR constraint": (
        "surefoot/CrashPortfolio-v0",
        {"critic": {"kind": "quantile"}, "risk": {"kind": "cvar_constraint", "alpha": 0.25, "limit_per_episode": -1.0}},
    ),
    "scalar, Discrete, cost constraint": (
        "surefoot/CostlyArm-v0",
        {"risk": {"kind": "cost_constraint", "limit_per_episode": 0.5}},
    ),
    "categorical twin, PopArt, Discrete": (
        "CartPole-v1",
        {
            "critic": {"kind": "categorical", "twin": "trunks", "popart": True, "clip_mode": "mean_only"},
            "clip_range_vf": 0.5,
        },
    ),
    "quantile twin, heads, masks, LSTM, workers": (
        "surefoot/Greenhouse-v0",
        {"critic": {"kind": "quantile", "twin": "heads"}, "memory": {"kind": "lstm", "hidden_size": 16}, "workers": 2},
    ),
    "adaptive KL, AdamW": ("CartPole-v1", {"adaptive_lr_kl": 0.01, "optimizer": "adamw", "weight_decay": 0.01}),
}
COMPILED: dict[str, tuple[str, dict[str, Any]]] = {"scalar, Discrete, compiled": ("CartPole-v1", {"compile": True})}
"""Those that need the room that compiles."""


def resume(updates: int = 5, names: list[str] | None = None) -> dict[str, Any]:
    """Cut after every update, continue from the file, and compare with the uninterrupted run by sha256."""
    equal, cuts, problems = 0, 0, []
    known = CONFIGURATIONS | COMPILED
    chosen = {name: known[name] for name in names or known}
    for name, (env, settings) in chosen.items():
        rows = 4 * 32
        with tempfile.TemporaryDirectory() as folder:
            whole = continued(env, settings, Path(folder), [updates * rows])
        for cut in range(1, updates):
            cuts += 1
            with tempfile.TemporaryDirectory() as folder:
                if continued(env, settings, Path(folder), [cut * rows, updates * rows]) == whole:
                    equal += 1
                else:
                    problems.append(f"{name}: cut after update {cut}")
    return {"configurations": len(chosen), "cuts": cuts, "equal": equal, "problems": problems}


def continued(env: str, settings: dict[str, Any], folder: Path, goals: list[int]) -> str:
    """Train to each goal in turn, by a new agent from the file each time; schedules span the last goal.

    The fingerprint of the last one."""
    common = {"n_envs": 4, "n_steps": 32, "batch_size": 32, "n_epochs": 2, "compile": False}
    config = from_flat(env=env, total_timesteps=goals[-1], **(common | settings))
    config = config.model_copy(update={"run": config.run.model_copy(update={"sinks": ()})})
    path = folder / "run"
    agent = PPO(env, config=config)
    with closing(Run.create(path, config)) as run:
        stop_at(goals[0], agent, run, goals[-1])
    for goal in goals[1:]:
        agent.close()
        agent = PPO.restore(from_snapshot(*latest_checkpoint(path)[:2]))
        with closing(Run.reopen(path, config, agent.num_timesteps)) as run:
            stop_at(goal, agent, run, goals[-1])
    with closing(agent):
        return fingerprint(agent, path)


def stop_at(goal: int, agent: PPO, run: Run, total: int) -> None:
    """Train on the way to ``total``, but only to ``goal``."""
    agent.train_to(total, lambda agent, record: agent.num_timesteps < goal, False, run)


def fingerprint(agent: PPO, run: Path) -> str:
    """sha256 over parameters, optimizer and the stream of metrics, times left out."""
    digest = hashlib.sha256()
    state = agent.learner.state_dict()
    for name in sorted(state.tensors):
        digest.update(name.encode() + state.tensors[name].numpy().tobytes())
    for line in read_metrics(run):
        kept = {key: value for key, value in line.items() if not key.startswith("time/")}
        digest.update(json.dumps(kept, sort_keys=True).encode())
    return digest.hexdigest()


def soak(minutes: float = 20.0) -> dict[str, Any]:
    """Train for a long time: resident memory and open files after warm-up against the end; time spent saving."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)
        agent = PPO("CartPole-v1", compile=False, seed=0)
        samples: list[tuple[float, float, int]] = []
        began = time.monotonic()
        saving = [0.0]

        def watch(agent: PPO, record: Any) -> bool:
            elapsed = time.monotonic() - began
            if not samples or elapsed - samples[-1][0] > minutes * 60 / 100:
                samples.append((elapsed, resident_megabytes(), open_files()))
            return elapsed < minutes * 60

        from surefoot.train import run as run_module

        save = run_module.Run.save

        def timed(self: Any, captured: Any) -> Path:
            start = time.perf_counter()
            try:
                return save(self, captured)
            finally:
                saving[0] += time.perf_counter() - start

        run_module.Run.save = timed  # type: ignore[method-assign]
        try:
            agent.learn(10**9, callback=watch, run_dir=Path(folder, "run"))
        finally:
            run_module.Run.save = save  # type: ignore[method-assign]
        elapsed = time.monotonic() - began
        warm = samples[len(samples) // 4 :]
        return {
            "minutes": elapsed / 60,
            "env_steps": agent.num_timesteps,
            "megabytes_after_warm_up": warm[0][1],
            "megabytes_at_end": warm[-1][1],
            "open_files_after_warm_up": warm[0][2],
            "open_files_at_end": warm[-1][2],
            "saving_share": saving[0] / elapsed,
            "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def resident_megabytes() -> float:
    """Of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files() -> int:
    """Of this process."""
    return len(os.listdir("/proc/self/fd"))


def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition, but not for ever."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SurefootError("the condition never came true")
        time.sleep(0.02)
