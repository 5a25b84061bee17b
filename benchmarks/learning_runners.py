"""Train one system on one task with one seed and evaluate it; each system is one small function."""

from __future__ import annotations

import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from learning_tasks import CRITICS, Task, system_settings

EVAL_SEED = 1_000_000
"""Evaluation episode k starts from seed EVAL_SEED + k, in every system and for every training seed."""
CURVE_POINTS = 50

Act = Callable[[npt.NDArray[Any]], Any]
Curve = list[tuple[int, float]]


@dataclass(frozen=True)
class Trained:
    """What a system hands back: returns of the deterministic evaluation and what the training cost."""

    version: str
    returns: list[float]
    wall_seconds: float
    cpu_seconds: float
    env_steps: int
    gradient_steps: int
    curve: Curve
    """(env steps, mean return of the last 100 training episodes), some fifty points."""


def run(system: str, task: Task, seed: int) -> dict[str, Any]:
    """One run as the JSON record that is kept."""
    torch.set_num_threads(1)
    settings = system_settings(system, task)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # MuJoCo leaves its log in the working directory
        trained = RUNNERS[system](task, seed)
        os.chdir("/")
    record = asdict(trained)
    return {
        "system": system,
        "version": record.pop("version"),
        "task": task.env_id,
        "seed": seed,
        "settings": settings,
        "mean": float(np.mean(trained.returns)),
        **record,
        "machine": machine(),
    }


def train_sb3_zoo(task: Task, seed: int) -> Trained:
    task, only_sb3 = task.as_the_zoo()
    return train_sb3(task, seed, **only_sb3)


def train_sb3(task: Task, seed: int, *, ortho_init: bool = True, **only_sb3: Any) -> Trained:
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.utils import LinearSchedule
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    class CurveCallback(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.curve: Curve = []

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            episodes = self.model.ep_info_buffer
            if episodes and self.num_timesteps >= len(self.curve) * task.total_steps / CURVE_POINTS:
                self.curve.append((self.num_timesteps, float(np.mean([episode["r"] for episode in episodes]))))

    env: VecEnv = make_vec_env(task.env_id, n_envs=task.n_envs, seed=seed)
    if task.normalize:
        env = VecNormalize(env, gamma=task.gamma)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="You have specified a mini-batch size")
        model = PPO(
            "MlpPolicy",
            env,
            n_steps=task.n_steps,
            batch_size=task.batch_size,
            n_epochs=task.n_epochs,
            gamma=task.gamma,
            gae_lambda=task.gae_lambda,
            # Not `progress * start`: the last rollout may pass the total, which would make that negative.
            learning_rate=LinearSchedule(task.learning_rate, 0.0, 1.0)
            if task.anneal_learning_rate
            else task.learning_rate,
            clip_range=LinearSchedule(task.clip_range, 0.0, 1.0) if task.anneal_clip_range else task.clip_range,
            ent_coef=task.ent_coef,
            vf_coef=task.vf_coef,
            max_grad_norm=task.max_grad_norm,
            policy_kwargs={
                "net_arch": list(task.hidden_sizes),
                "activation_fn": torch.nn.Tanh,
                "log_std_init": task.log_std_init,
                "ortho_init": ortho_init,
                "optimizer_kwargs": {"eps": task.adam_eps},
            },
            seed=seed,
            device="cpu",
            **only_sb3,
        )
    callback = CurveCallback()
    wall, cpu = time.perf_counter(), time.process_time()
    model.learn(task.total_steps, callback=callback)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu

    def act(observation: npt.NDArray[Any]) -> Any:
        seen = env.normalize_obs(observation) if isinstance(env, VecNormalize) else observation
        return model.predict(np.asarray(seen), deterministic=True)[0]

    return Trained(
        version=version("stable-baselines3"),
        returns=evaluate(act, task),
        wall_seconds=wall,
        cpu_seconds=cpu,
        env_steps=model.num_timesteps,
        gradient_steps=model._n_updates * task.minibatches(),  # SB3 counts epochs
        curve=callback.curve,
    )


def train_surefoot(task: Task, seed: int, **more: Any) -> Trained:
    from surefoot import PPO
    from surefoot.algo.learner import IterationRecord

    curve: Curve = []
    gradient_steps = 0

    def follow(agent: PPO, record: IterationRecord) -> None:
        nonlocal gradient_steps
        gradient_steps += record.update.gradient_steps
        recent = record.episodes.get("rollout/ep_rew_mean")
        if recent is not None and agent.num_timesteps >= len(curve) * task.total_steps / CURVE_POINTS:
            curve.append((agent.num_timesteps, recent))

    def schedule(start: float, anneal: bool) -> float | str:
        return f"linear({start}, 0)" if anneal else start

    if task.normalize:
        more = {"observation_statistics": "step"} | more  # as SB3 does
    agent = PPO(
        task.env_id,
        n_envs=task.n_envs,
        seed=seed,
        n_steps=task.n_steps,
        batch_size=task.batch_size,
        n_epochs=task.n_epochs,
        gamma=task.gamma,
        gae_lambda=task.gae_lambda,
        learning_rate=schedule(task.learning_rate, task.anneal_learning_rate),
        clip_range=schedule(task.clip_range, task.anneal_clip_range),
        ent_coef=task.ent_coef,
        vf_coef=task.vf_coef,
        max_grad_norm=task.max_grad_norm,
        normalize_observations=task.normalize,
        normalize_rewards=task.normalize,
        policy={"hidden_sizes": task.hidden_sizes, "activation": "tanh", "log_std_init": task.log_std_init},
        adam_eps=task.adam_eps,
        normalize_advantage="minibatch",  # as SB3 does
        **more,
    )
    wall, cpu = time.perf_counter(), time.process_time()
    agent.learn(task.total_steps, callback=follow)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Trained(
        version=version("surefoot"),
        returns=[float(value) for value in agent.evaluate(task.n_eval_episodes, seed=EVAL_SEED).returns],
        wall_seconds=wall,
        cpu_seconds=cpu,
        env_steps=agent.num_timesteps,
        gradient_steps=gradient_steps,
        curve=curve,
    )


def evaluate(act: Act, task: Task) -> list[float]:
    """Undiscounted returns of deterministic episodes, episode k from seed EVAL_SEED + k."""
    env = gym.make(task.env_id)
    returns = []
    for episode in range(task.n_eval_episodes):
        observation, _ = env.reset(seed=EVAL_SEED + episode)
        total, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total += float(reward)
            done = terminated or truncated
        returns.append(total)
    env.close()
    return returns


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


RUNNERS: dict[str, Callable[[Task, int], Trained]] = {
    "sb3": train_sb3,
    "sb3-zoo": train_sb3_zoo,
    "surefoot": train_surefoot,
    **{system: partial(train_surefoot, critic=critic) for system, critic in CRITICS.items()},
}
