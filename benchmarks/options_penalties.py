"""What the smaller options do to the quantity that each is about: KL of an update, entropy, standard deviation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from kept_runs import Record
from tables import estimate, mean, spread

STEPS = 30_720
ENVS = {"CartPole-v1": "CartPole", "Pendulum-v1": "Pendulum"}
# Pendulum's σ starts at 0.5 half-widths, which its preset lets fall and an entropy bonus lets rise.
CONTENDERS: dict[str, dict[str, Any]] = {
    "CartPole": {},
    "CartPole, kl_coef 1": {"kl_coef": 1.0},
    "CartPole, kl_coef to KL 0.001": {"kl_coef": 1.0, "adaptive_kl_coef": True, "target_kl": 0.001},
    "CartPole, entropy_floor 0.6": {"entropy_floor": 0.6},
    "Pendulum": {},
    "Pendulum, std_min 0.5": {"policy": {"std_min": 0.5}},
    "Pendulum, ent_coef 0.1": {"ppo": {"ent_coef": 0.1}},
    "Pendulum, ent_coef 0.1, std_max 0.5": {"ppo": {"ent_coef": 0.1}, "policy": {"std_max": 0.5}},
}
COLUMNS = {
    "kl": "KL of an update",
    "entropy": "entropy, nats",
    "std": "σ in half-widths of the box",
    "mean": "return",
}


def run_penalties(contender: str, seed: int, steps: int, settings: dict[str, Any]) -> Record:
    """The preset of the env; means over the second half of training, and the return of the policy after it."""
    from surefoot import PPO, preset

    env = next(env for env, name in ENVS.items() if contender.startswith(name))
    given: dict[str, Any] = dict(preset(env))
    given |= settings | {part: given.get(part, {}) | settings.get(part, {}) for part in ("policy", "ppo")}
    agent = PPO(env, seed=seed, **given)
    rows: list[dict[str, float]] = []

    def watch(agent: Any, record: Any) -> None:
        rows.append({"kl": record.update.kl_last, "entropy": record.update.entropy})
        if env == "Pendulum-v1":
            rows[-1]["std"] = agent.logger_values.get("train/std", np.nan) / 2.0  # the box is [−2, 2]; not in the first

    agent.learn(steps, callback=watch)
    late = rows[len(rows) // 2 :]
    found = {name: float(np.mean([row[name] for row in late])) for name in late[0]}
    return {"mean": agent.evaluate(20, seed=10_000).mean, **found}


def penalties_table(groups: Mapping[str, list[Record]]) -> list[str]:
    """Each quantity with its interval over seeds."""
    lines = [f"| settings | {' | '.join(COLUMNS.values())} |", f"|---|{'---|' * len(COLUMNS)}"]
    digits = {"kl": 4, "entropy": 2, "std": 3, "mean": 0}
    for contender, kept in groups.items():
        cells = [
            spread(*estimate(np.array([record[name] for record in kept]), mean), digits[name])
            if name in kept[0]
            else ""
            for name in COLUMNS
        ]
        lines.append(f"| {contender} | {' | '.join(cells)} |")
    return [*lines, ""]
