"""Settings for markets by the length of their bars; ``benchmarks/results/market.md`` has what they reach.

Daily and hourly ones were chosen on seeds 10 to 12 by the validation spans of the embedded S&P 500 and EURUSD: features
of weeks and months in place of days overfit less, and on costs that are paid by the hour small trades are left out.
"""

from __future__ import annotations

from typing import Any

MARKET_ID = "surefoot/Market-v0"

MARKET_PRESETS: dict[str, dict[str, Any]] = {
    "market-daily": {
        "env": MARKET_ID,
        "total_timesteps": 300_000,
        "market": {"features": ("return(20)", "return(60)", "return(250)", "volatility(20)", "volatility(120)")},
        "run": {"eval_every": 25_000, "patience": 6, "eval_episodes": 1},
    },
    "market-hourly": {
        "env": MARKET_ID,
        "n_envs": 64,
        "total_timesteps": 300_000,
        "ppo": {"n_steps": 128, "batch_size": 512, "n_epochs": 4, "learning_rate": "linear(3e-4, 0)"},
        "market": {
            "features": ("return(24)", "return(120)", "return(480)", "volatility(24)", "volatility(120)"),
            "episode_length": (250,),
            "rebalance_band": 0.1,
        },
        "run": {"eval_every": 25_000, "patience": 6, "eval_episodes": 1},
    },
    "market-minute": {
        "env": MARKET_ID,
        "n_envs": 64,
        "total_timesteps": 1_000_000,
        "policy": {"hidden_sizes": (32, 32)},
        "ppo": {
            "n_steps": 64,
            "batch_size": 1024,
            "n_epochs": 4,
            "gamma": 0.9,
            "gae_lambda": 0.9,
            "learning_rate": "linear(1e-3, 0)",
        },
        "market": {"episode_length": (250,)},
        "run": {"eval_every": 50_000, "patience": 6, "eval_episodes": 1},
    },
}
"""By name; each needs ``market.data``."""
