"""The demo: trains agents to hedge and compares them with the classical rules on fresh paths."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from surefoot.config.presets import preset
from surefoot.hedging.baselines import classical_strategies
from surefoot.hedging.dynamics import Floats
from surefoot.hedging.evaluation import evaluate_strategy
from surefoot.hedging.report import loss_table
from surefoot.hedging.strategies import Strategy
from surefoot.train.ppo import PPO

N_PATHS = 100_000
PATHS_SEED = 20_000
"""Of the fresh paths; training seeds lead to others."""
DEMO = {"risk-neutral agent": ("hedging-neutral", 600_000), "CVaR agent": ("hedging-cvar95", 2_000_000)}
"""The agents of the demo: preset and env steps."""
RULES_SHOWN = ("delta", "Whalley–Wilmott", "best band")


class Trained(NamedTuple):
    """An agent as a strategy, and what it took."""

    agent: PPO
    strategy: Strategy
    seconds: float


def train_hedger(name: str, seed: int, total_timesteps: int | None = None, progress_bar: bool = False) -> Trained:
    """By a preset of the table; its policy acts without noise."""
    settings = dict(preset(name))
    env, steps = settings.pop("env"), settings.pop("total_timesteps")
    began = time.perf_counter()
    agent = PPO(env, seed=seed, **_flat(settings))
    agent.learn(total_timesteps or steps, progress_bar=progress_bar)
    seconds = time.perf_counter() - began

    def strategy(observation: Any) -> Any:
        return agent.predict(observation, deterministic=True)[0]

    return Trained(agent, strategy, seconds)


def without_stagger(env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The same world with whole episodes only, as paths are evaluated."""
    return {name: value for name, value in env_kwargs.items() if name != "stagger"}


def demo(folder: Path, say: Callable[[str], None], seed: int = 0) -> Path:
    """Train the two agents with live progress, print the table, draw the picture; where that is."""
    from surefoot.hedging.pictures import draw_losses

    world = without_stagger(preset("hedging-cvar95")["env_kwargs"])
    pnl: dict[str, Floats] = {}
    for title, (name, steps) in DEMO.items():
        say(f"Training the {title} to hedge an option it has sold, with costs of 1 % ({steps:,} env steps) …")
        trained = train_hedger(name, seed, steps, progress_bar=True)
        pnl[title] = evaluate_strategy(trained.strategy, world, N_PATHS, PATHS_SEED)
        trained.agent.close()
    rules = classical_strategies(world)
    pnl |= {rule: evaluate_strategy(rules[rule], world, N_PATHS, PATHS_SEED) for rule in rules if rule in RULES_SHOWN}
    say(f"\nP&L at maturity on {N_PATHS:,} fresh paths; CVaR95 is the mean of the worst 5 % of losses:\n")
    say(loss_table(pnl, (0.95, 0.99)))
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / "hedging.png"
    draw_losses(pnl, picture, agents=tuple(DEMO), title="Hedging a sold call with costs of 1 %")
    return picture


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Sections as `PPO` takes them: those of ``ppo`` flat."""
    return {name: value for name, value in settings.items() if name != "ppo"} | dict(settings["ppo"])
