"""Published settings of well-known tasks, under the names of Surefoot.

Sources: rl-baselines3-zoo ``hyperparams/ppo.yml`` (classic control, LunarLander) and CleanRL
``ppo_continuous_action.py`` (MuJoCo), neither of which has PopArt. Where the source uses gSDE noise, which Surefoot
does not have, the settings are the nearest without it; the figures reached with them are in
``benchmarks/results/learning.md``.
"""

from __future__ import annotations

import copy
import math
from typing import Any

from surefoot.config.hedging_presets import HEDGING_PRESETS
from surefoot.config.load import nearest_option
from surefoot.config.market_presets import MARKET_PRESETS
from surefoot.errors import ConfigError

_PLAIN_CRITIC = {"popart": False}

_MUJOCO: dict[str, Any] = {
    "n_envs": 1,
    "total_timesteps": 1_000_000,
    "critic": _PLAIN_CRITIC,
    "ppo": {
        "n_steps": 2048,
        "batch_size": 64,
        "n_epochs": 10,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "learning_rate": "linear(3e-4, 0)",
        "clip_range": 0.2,
        "clip_range_vf": 0.2,
        "ent_coef": 0.0,
        "vf_coef": 0.25,
        "max_grad_norm": 0.5,
        "normalize_observations": True,
        "normalize_rewards": True,
    },
}

PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "n_envs": 8,
        "total_timesteps": 100_000,
        "critic": _PLAIN_CRITIC,
        "ppo": {
            "n_steps": 32,
            "batch_size": 256,
            "n_epochs": 20,
            "gamma": 0.98,
            "gae_lambda": 0.8,
            "learning_rate": "linear(1e-3, 0)",
            "clip_range": "linear(0.2, 0)",
        },
    },
    "Acrobot-v1": {
        "n_envs": 16,
        "total_timesteps": 500_000,
        "critic": _PLAIN_CRITIC,
        "ppo": {
            "n_steps": 256,
            "n_epochs": 4,
            "gae_lambda": 0.94,
            "normalize_observations": True,
            "normalize_rewards": True,
        },
    },
    "Pendulum-v1": {
        "n_envs": 4,
        "total_timesteps": 100_000,
        "policy": {"log_std_init": -math.log(2.0)},  # σ = 1 in the env's units, in half-widths of [−2, 2]
        "critic": _PLAIN_CRITIC,
        "ppo": {"n_steps": 1024, "n_epochs": 10, "gamma": 0.9, "learning_rate": 1e-3},
    },
    "MountainCarContinuous-v0": {
        "n_envs": 1,
        "total_timesteps": 20_000,
        "critic": _PLAIN_CRITIC,
        "policy": {"log_std_init": 0.5},
        "ppo": {
            "n_steps": 1024,
            "batch_size": 64,
            "n_epochs": 10,
            "gamma": 0.9999,
            "gae_lambda": 0.9,
            "learning_rate": 1e-3,
            "clip_range": 0.1,
            "ent_coef": 0.00429,
            "vf_coef": 0.19,
            "max_grad_norm": 5.0,
            "normalize_observations": True,
            "normalize_rewards": True,
        },
    },
    "LunarLander-v3": {
        "n_envs": 16,
        "total_timesteps": 1_000_000,
        "critic": _PLAIN_CRITIC,
        "ppo": {"n_steps": 1024, "n_epochs": 4, "gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01},
    },
    "HalfCheetah-v5": _MUJOCO,
    "Hopper-v5": _MUJOCO,
    "Walker2d-v5": _MUJOCO,
}


NAMED: dict[str, dict[str, Any]] = {**HEDGING_PRESETS, **MARKET_PRESETS}
"""Presets that carry their env, and perhaps its arguments, beside the settings: ``PPO(**preset(name))``."""


def preset(name: str) -> dict[str, Any]:
    """Settings for ``PPO(env, **preset(env))``, or ``PPO(**preset(name))`` of one with an env of its own; sections as
    in a config file."""
    known = PRESETS | NAMED
    if name not in known:
        raise ConfigError(f"no preset for {name!r}{nearest_option(name, list(known))}; there are {', '.join(known)}")
    return copy.deepcopy(known[name])
