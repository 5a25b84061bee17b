"""What a strategy ends with on fresh paths: P&L, and CVaR of the loss with its error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from surefoot.errors import ConfigError, SurefootError
from surefoot.hedging.dynamics import Floats
from surefoot.hedging.env import HedgingVector
from surefoot.hedging.strategies import Strategy
from surefoot.math.risk import cvar_from_samples, var_from_samples

CHUNK = 25_000
"""Paths that are simulated together: what they need stays in the processor's cache better than all at once."""


def evaluate_strategy(
    strategy: Strategy, env_kwargs: Mapping[str, Any], n_paths: int = 100_000, seed: int = 0
) -> Floats:
    """Final P&L [n_paths], charging the premium. The paths depend on the seed only: strategies meet the same ones."""
    if env_kwargs.get("stagger"):
        raise ConfigError("stagger = True: a P&L is of whole episodes, leave stagger out of env_kwargs to evaluate")
    if n_paths < 1:
        raise ConfigError(f"n_paths = {n_paths}: at least one is needed")
    chunks = [min(CHUNK, n_paths - start) for start in range(0, n_paths, CHUNK)]
    return np.concatenate([_chunk(strategy, env_kwargs, n, [seed, i]) for i, n in enumerate(chunks)])


def _chunk(strategy: Strategy, env_kwargs: Mapping[str, Any], n: int, seed: list[int]) -> Floats:
    env = HedgingVector(n, **env_kwargs)
    env.np_random = np.random.default_rng(seed)
    observation, _ = env.reset()
    pnl = np.zeros(n)
    for day in range(env.dynamics.n_steps):
        positions = np.asarray(strategy(observation))
        if positions.shape != env.action_space.shape:
            raise SurefootError(
                f"the strategy answered with shape {positions.shape} on day {day}, expected {env.action_space.shape}"
            )
        observation, reward, *_ = env.step(positions)
        pnl += reward
    return pnl


def cvar_loss(pnl: Floats, level: float) -> float:
    """Mean of the worst 1 − level of the losses −P&L; level 0.95 is what is called CVaR95."""
    return -float(cvar_from_samples(torch.from_numpy(pnl), _tail(level)))


def var_loss(pnl: Floats, level: float) -> float:
    """The loss that is exceeded with probability 1 − level."""
    return -float(var_from_samples(torch.from_numpy(pnl), _tail(level)))


def cvar_standard_error(pnl: Floats, level: float) -> float:
    """Of `cvar_loss`: by Rockafellar–Uryasev it is an average of v + (loss − v)⁺/(1 − level), v the VaR, and to first
    order the error in v has no effect, so what is left is the standard error of that average."""
    excess = np.maximum(-pnl - var_loss(pnl, level), 0.0)
    return float(excess.std(ddof=1)) / (_tail(level) * math.sqrt(len(pnl)))


@dataclass(frozen=True)
class LossFigures:
    """Mean P&L and CVaR of the loss, each with its standard error over paths."""

    mean: float
    mean_se: float
    cvar: dict[float, float]
    """By level."""
    cvar_se: dict[float, float]
    n_paths: int


LEVELS = (0.5, 0.95, 0.99)


def loss_figures(pnl: Floats, levels: tuple[float, ...] = LEVELS) -> LossFigures:
    return LossFigures(
        mean=float(pnl.mean()),
        mean_se=float(pnl.std(ddof=1)) / math.sqrt(len(pnl)),
        cvar={level: cvar_loss(pnl, level) for level in levels},
        cvar_se={level: cvar_standard_error(pnl, level) for level in levels},
        n_paths=len(pnl),
    )


def _tail(level: float) -> float:
    if not 0.0 <= level < 1.0:
        raise ConfigError(f"level = {level}: CVaR95 is level 0.95; a level lies in [0, 1)")
    return 1.0 - level
