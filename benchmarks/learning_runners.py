"""Train one system on one task with one seed and evaluate it; each system is one small function."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import gymnasium as gym
import torch
import training
from learning_tasks import CRITICS, Task, system_settings
from training import Trained, linear_to_zero, record_of


def run(system: str, task: Task, seed: int) -> dict[str, Any]:
    """One run as the JSON record that is kept."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # MuJoCo leaves its log in the working directory
        trained = RUNNERS[system](task, seed)
        os.chdir("/")
    return record_of(trained, system_settings(system, task), system=system, task=task.env_id, seed=seed)


def train_sb3_zoo(task: Task, seed: int) -> Trained:
    task, only_sb3 = task.as_the_zoo()
    return train_sb3(task, seed, **only_sb3)


def train_sb3(task: Task, seed: int, *, ortho_init: bool = True, **only_sb3: Any) -> Trained:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

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
            learning_rate=linear_to_zero(task.learning_rate) if task.anneal_learning_rate else task.learning_rate,
            clip_range=linear_to_zero(task.clip_range) if task.anneal_clip_range else task.clip_range,
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
    return training.train_sb3("stable-baselines3", model, task.total_steps, gym.make(task.env_id), task.n_eval_episodes)


def train_surefoot(task: Task, seed: int, critic: Mapping[str, Any] = MappingProxyType({})) -> Trained:
    from surefoot import PPO

    def schedule(start: float, anneal: bool) -> float | str:
        return f"linear({start}, 0)" if anneal else start

    more: dict[str, Any] = {"observation_statistics": "step"} if task.normalize else {}  # as SB3 does
    with gym.make(task.env_id) as env:
        log_std_init = training.in_units_of_the_box(task.log_std_init, env.action_space)
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
        policy={"hidden_sizes": task.hidden_sizes, "activation": "tanh", "log_std_init": log_std_init},
        adam_eps=task.adam_eps,
        normalize_advantage="minibatch",  # as SB3 does
        critic={"popart": False, **critic},  # as SB3 does
        **more,
    )
    return training.train_surefoot(agent, task.total_steps, task.n_eval_episodes)


RUNNERS: dict[str, Callable[[Task, int], Trained]] = {
    "sb3": train_sb3,
    "sb3-zoo": train_sb3_zoo,
    "surefoot": train_surefoot,
    **{system: partial(train_surefoot, critic=critic) for system, critic in CRITICS.items()},
}
