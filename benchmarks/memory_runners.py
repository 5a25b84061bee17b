"""Train one agent on one task of the memory benchmark and evaluate it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from learning_runners import CURVE_POINTS, EVAL_SEED, Curve, machine
from memory_tasks import Agent, Task
from memory_worlds import WORLDS, Env

PROBE_SEED = 500_000
"""Probe episode k starts from seed PROBE_SEED + k: others than those that make the score."""


@dataclass(frozen=True)
class Trained:
    """What a system hands back."""

    version: str
    returns: list[float]
    """Of the deterministic policy, in the evaluation's episodes."""
    reached_at: int | None
    """Env steps at the first probe that met the task's goal, where training stops; None: never, or no goal."""
    env_steps: int
    gradient_steps: int
    wall_seconds: float
    cpu_seconds: float
    curve: Curve
    """(env steps, mean return of the last 100 training episodes), some fifty points."""


def run(task: Task, agent: Agent, seed: int) -> dict[str, Any]:
    """One run as the JSON record that is kept."""
    torch.set_num_threads(1)
    trained = RUNNERS[agent.system](task, agent, seed)
    record = asdict(trained)
    return {
        "task": task.name,
        "agent": agent.name,
        "seed": seed,
        "version": record.pop("version"),
        "settings": task.settings(agent),
        "mean": float(np.mean(trained.returns)),
        **record,
        "machine": machine(),
    }


def world_of(task: Task, agent: Agent) -> Callable[[], Env]:
    return lambda: WORLDS[task.world](**task.world_settings, **agent.world)


def train_surefoot(task: Task, agent: Agent, seed: int) -> Trained:
    from surefoot import PPO
    from surefoot.algo.learner import IterationRecord

    curve: Curve = []
    gradient_steps, reached_at, next_probe = 0, None, task.probe_every

    def follow(learner: PPO, record: IterationRecord) -> bool:
        nonlocal gradient_steps, reached_at, next_probe
        gradient_steps += record.update.gradient_steps
        recent = record.episodes.get("rollout/ep_rew_mean")
        if recent is not None and learner.num_timesteps >= len(curve) * task.total_steps / CURVE_POINTS:
            curve.append((learner.num_timesteps, recent))
        if task.goal is None or learner.num_timesteps < next_probe:
            return True
        next_probe += task.probe_every
        if learner.evaluate(task.n_probe_episodes, seed=PROBE_SEED).mean >= task.goal:
            reached_at = learner.num_timesteps
        return reached_at is None

    learner = PPO(world_of(task, agent), seed=seed, compile=False, **task.ppo_settings(agent))
    wall, cpu = time.perf_counter(), time.process_time()
    learner.learn(task.total_steps, callback=follow)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Trained(
        version=version("surefoot"),
        returns=[float(value) for value in learner.evaluate(task.n_eval_episodes, seed=EVAL_SEED).returns],
        reached_at=reached_at,
        env_steps=learner.num_timesteps,
        gradient_steps=gradient_steps,
        wall_seconds=wall,
        cpu_seconds=cpu,
        curve=curve,
    )


def train_sb3_contrib(task: Task, agent: Agent, seed: int) -> Trained:
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.utils import LinearSchedule
    from stable_baselines3.common.vec_env import VecNormalize

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

    given = dict(task.ppo_settings(agent))
    memory, policy = given.pop("memory"), given.pop("policy")
    for name in ("learning_rate", "clip_range"):
        if isinstance(given[name], str):  # linear(start, 0)
            given[name] = LinearSchedule(float(given[name].removeprefix("linear(").split(",")[0]), 0.0, 1.0)
    env = VecNormalize(
        make_vec_env(world_of(task, agent), n_envs=given.pop("n_envs"), seed=seed),
        norm_obs=given.pop("normalize_observations"),
        norm_reward=given.pop("normalize_rewards"),
        gamma=given["gamma"],
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="You have specified a mini-batch size")
        model = RecurrentPPO(
            "MlpLstmPolicy",
            env,
            policy_kwargs={
                "net_arch": list(policy["hidden_sizes"]),
                "activation_fn": {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}[policy["activation"]],
                "ortho_init": policy["ortho_init"],
                "lstm_hidden_size": memory["hidden_size"],
                "enable_critic_lstm": True,
            },
            seed=seed,
            device="cpu",
            **given,
        )
    callback = CurveCallback()
    wall, cpu = time.perf_counter(), time.process_time()
    model.learn(task.total_steps, callback=callback)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    minibatches = -(-env.num_envs * given["n_steps"] // given["batch_size"])
    return Trained(
        version=version("sb3-contrib"),
        returns=evaluate(model, env.normalize_obs, world_of(task, agent)(), task.n_eval_episodes),
        reached_at=None,
        env_steps=model.num_timesteps,
        gradient_steps=model._n_updates * minibatches,  # SB3 counts epochs
        wall_seconds=wall,
        cpu_seconds=cpu,
        curve=callback.curve,
    )


def evaluate(model: Any, normalise: Callable[[Any], Any], env: Env, n_episodes: int) -> list[float]:
    """Undiscounted returns of deterministic episodes, episode k from seed EVAL_SEED + k."""
    returns = []
    for episode in range(n_episodes):
        observation, _ = env.reset(seed=EVAL_SEED + episode)
        state, total, done = None, 0.0, False
        while not done:
            start = np.array([state is None])
            action, state = model.predict(normalise(observation), state, start, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            done = terminated or truncated
        returns.append(total)
    return returns


RUNNERS: dict[str, Callable[[Task, Agent, int], Trained]] = {
    "surefoot": train_surefoot,
    "sb3-contrib": train_sb3_contrib,
}
