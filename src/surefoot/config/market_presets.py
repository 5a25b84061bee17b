"""Settings for markets by the length of their bars; ``benchmarks/market_learning.py`` chose and measures them."""

from __future__ import annotations

from typing import Any

MARKET_ID = "surefoot/Market-v0"

_AGENT: dict[str, Any] = {
    "env": MARKET_ID,
    "n_envs": 64,
    "policy": {"hidden_sizes": (32, 32), "log_std_init": -1.0},
}

MARKET_PRESETS: dict[str, dict[str, Any]] = {
    "market-daily": _AGENT
    | {
        "total_timesteps": 500_000,
        "ppo": {
            "n_steps": 64,
            "batch_size": 1024,
            "n_epochs": 4,
            "gamma": 0.9,
            "gae_lambda": 0.9,
            "learning_rate": "linear(3e-4, 0)",
        },
        "market": {"episode_length": (252,)},
        "run": {"eval_every": 25_000, "patience": 6, "eval_episodes": 1},
    },
    "market-hourly": _AGENT
    | {
        "total_timesteps": 1_000_000,
        "ppo": {
            "n_steps": 64,
            "batch_size": 1024,
            "n_epochs": 4,
            "gamma": 0.9,
            "gae_lambda": 0.9,
            "learning_rate": "linear(3e-4, 0)",
        },
        "market": {"episode_length": (500,)},
        "run": {"eval_every": 50_000, "patience": 6, "eval_episodes": 1},
    },
    "market-minute": _AGENT
    | {
        "total_timesteps": 2_000_000,
        "ppo": {
            "n_steps": 64,
            "batch_size": 1024,
            "n_epochs": 4,
            "gamma": 0.9,
            "gae_lambda": 0.9,
            "learning_rate": "linear(1e-3, 0)",
        },
        "market": {"episode_length": (1_000,)},
        "run": {"eval_every": 100_000, "patience": 6, "eval_episodes": 1},
    },
}
"""By name; each needs ``market.data``."""
