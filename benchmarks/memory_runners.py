"""Train one agent on one task of the memory benchmark and evaluate it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import training
from memory_tasks import Agent, Task
from memory_worlds import WORLDS, Env
from training import Trained, linear_to_zero, record_of

PROBE_SEED = 500_000
"""Probe episode k starts from seed PROBE_SEED + k: others than those that make the score."""

Reached = int | None
"""Env steps at the first probe that met the task's goal, where training stops; None: never, or no goal."""


def run(task: Task, agent: Agent, seed: int) -> dict[str, Any]:
    """One run as the JSON record that is kept."""
    torch.set_num_threads(1)
    trained, reached_at = RUNNERS[agent.system](task, agent, seed)
    who = {"task": task.name, "agent": agent.name, "seed": seed, "reached_at": reached_at}
    return record_of(trained, task.settings(agent), **who)


def world_of(task: Task, agent: Agent) -> Callable[[], Env]:
    return lambda: WORLDS[task.world](**task.world_settings, **agent.world)


def train_surefoot(task: Task, agent: Agent, seed: int) -> tuple[Trained, Reached]:
    from surefoot import PPO

    reached_at, next_probe = None, task.probe_every

    def at_goal(learner: PPO) -> bool:
        nonlocal reached_at, next_probe
        if task.goal is None or learner.num_timesteps < next_probe:
            return False
        next_probe += task.probe_every
        if learner.evaluate(task.n_probe_episodes, seed=PROBE_SEED).mean >= task.goal:
            reached_at = learner.num_timesteps
        return reached_at is not None

    settings = dict(task.ppo_settings(agent))
    with world_of(task, agent)() as env:
        log_std_init = training.in_units_of_the_box(0.0, env.action_space)
    if log_std_init:
        settings["policy"] = {**settings["policy"], "log_std_init": log_std_init}
    plain_critic = {"popart": False}  # as sb3-contrib has it
    learner = PPO(world_of(task, agent), seed=seed, critic=plain_critic, **settings)
    trained = training.train_surefoot(learner, task.total_steps, task.n_eval_episodes, at_goal)
    return trained, reached_at


def train_sb3_contrib(task: Task, agent: Agent, seed: int) -> tuple[Trained, Reached]:
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    given = dict(task.ppo_settings(agent))
    memory, policy = given.pop("memory"), given.pop("policy")
    for name in ("learning_rate", "clip_range"):
        if isinstance(given[name], str):  # linear(start, 0)
            given[name] = linear_to_zero(float(given[name].removeprefix("linear(").split(",")[0]))
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
    env_of_evaluation = world_of(task, agent)()
    trained = training.train_sb3("sb3-contrib", model, task.total_steps, env_of_evaluation, task.n_eval_episodes)
    return trained, None


RUNNERS: dict[str, Callable[[Task, Agent, int], tuple[Trained, Reached]]] = {
    "surefoot": train_surefoot,
    "sb3-contrib": train_sb3_contrib,
}
