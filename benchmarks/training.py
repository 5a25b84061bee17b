"""Train an agent of either kind, with the clock running, and evaluate it: the same for every benchmark."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from surefoot import PPO
from surefoot.algo.learner import IterationRecord

EVAL_SEED = 1_000_000
"""Evaluation episode k starts from seed EVAL_SEED + k, in every system and for every training seed."""
CURVE_POINTS = 50


@dataclass(frozen=True)
class Trained:
    """Returns of the deterministic evaluation, and what the training cost."""

    version: str
    returns: list[float]
    wall_seconds: float
    cpu_seconds: float
    env_steps: int
    gradient_steps: int
    curve: list[tuple[int, float]]
    """(env steps, mean return of the last 100 training episodes), some fifty points."""


def record_of(trained: Trained, settings: Mapping[str, Any], **who: Any) -> dict[str, Any]:
    """What is kept of a run, as JSON: who ran, the settings that decide the result, and what came of it."""
    return {
        **who,
        "settings": dict(settings),
        "mean": float(np.mean(trained.returns)),
        **asdict(trained),
        "machine": machine(),
    }


def in_units_of_the_box(log_std: float, space: gym.Space[Any]) -> float:
    """What Surefoot calls a log standard deviation that is given in the env's own units, as in SB3."""
    if not isinstance(space, gym.spaces.Box):
        return log_std
    half_widths = np.unique(0.5 * (space.high - space.low))
    if len(half_widths) != 1 or not np.isfinite(half_widths[0]):
        raise ValueError(f"{space}: one log_std_init stands for all dimensions, and these have no common unit")
    return log_std - math.log(half_widths[0])


class Curve:
    """Returns during training, thinned out evenly."""

    def __init__(self, total_steps: int) -> None:
        self.points: list[tuple[int, float]] = []
        self._spacing = total_steps / CURVE_POINTS

    def note(self, env_steps: int, recent: float) -> None:
        if env_steps >= len(self.points) * self._spacing:
            self.points.append((env_steps, recent))


def train_surefoot(
    agent: PPO, total_steps: int, n_eval_episodes: int, stop: Callable[[PPO], bool] = lambda _: False
) -> Trained:
    """Until the steps are done, or ``stop`` says so after an iteration."""
    curve, gradient_steps = Curve(total_steps), 0

    def follow(agent: PPO, record: IterationRecord) -> bool:
        nonlocal gradient_steps
        gradient_steps += record.update.gradient_steps
        recent = record.episodes.get("rollout/ep_rew_mean")
        if recent is not None:
            curve.note(agent.num_timesteps, recent)
        return not stop(agent)

    wall, cpu = timed(lambda: agent.learn(total_steps, callback=follow))
    return Trained(
        version=version("surefoot"),
        returns=[float(value) for value in agent.evaluate(n_eval_episodes, seed=EVAL_SEED).returns],
        wall_seconds=wall,
        cpu_seconds=cpu,
        env_steps=agent.num_timesteps,
        gradient_steps=gradient_steps,
        curve=curve.points,
    )


def train_sb3(package: str, model: Any, total_steps: int, env: gym.Env[Any, Any], n_eval_episodes: int) -> Trained:
    """A model of ``package``, be it recurrent or not; evaluated in ``env``."""
    from stable_baselines3.common.callbacks import BaseCallback

    curve = Curve(total_steps)

    class Follow(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            if episodes := self.model.ep_info_buffer:
                curve.note(self.num_timesteps, float(np.mean([episode["r"] for episode in episodes])))

    wall, cpu = timed(lambda: model.learn(total_steps, callback=Follow()))
    minibatches = -(-model.n_envs * model.n_steps // model.batch_size)
    return Trained(
        version=version(package),
        returns=evaluate_sb3(model, env, n_eval_episodes),
        wall_seconds=wall,
        cpu_seconds=cpu,
        env_steps=model.num_timesteps,
        gradient_steps=model._n_updates * minibatches,  # SB3 counts epochs
        curve=curve.points,
    )


def evaluate_sb3(model: Any, env: gym.Env[Any, Any], n_episodes: int) -> list[float]:
    """Undiscounted returns of deterministic episodes, the training normalizer frozen."""
    normalizer = model.get_vec_normalize_env()
    returns = []
    for episode in range(n_episodes):
        observation, _ = env.reset(seed=EVAL_SEED + episode)
        state, total, done = None, 0.0, False
        while not done:
            seen = observation if normalizer is None else normalizer.normalize_obs(observation)
            action, state = model.predict(seen, state, np.array([state is None]), deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            done = terminated or truncated
        returns.append(total)
    env.close()
    return returns


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def linear_to_zero(start: float) -> Any:
    """Not SB3's `progress * start`: the last rollout may pass the total, which would make that negative."""
    from stable_baselines3.common.utils import LinearSchedule

    return LinearSchedule(start, 0.0, 1.0)


def machine() -> dict[str, Any]:
    packages = ("torch", "numpy", "gymnasium", "mujoco")
    return {
        "cores": os.cpu_count(),
        "cpu": cpu_model(),
        "python": platform.python_version(),
        "torch_threads": torch.get_num_threads(),
        **{package: installed_version(package) for package in packages},
    }


def installed_version(package: str) -> str | None:
    try:
        return version(package)
    except ModuleNotFoundError:
        return None


def cpu_model() -> str:
    """The model name that Linux gives; elsewhere what Python knows."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
