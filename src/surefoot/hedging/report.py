"""P&L of strategies as a table, and where their positions were: what the pages and the pictures are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.hedging.dynamics import Floats, dynamics_named
from surefoot.hedging.evaluation import LEVELS, evaluate_strategy, loss_figures
from surefoot.hedging.observation import Units
from surefoot.hedging.strategies import Strategy

INTERVAL = 1.96
"""Standard errors on each side of a 95 % interval."""


def loss_table(pnl: Mapping[str, Floats], levels: tuple[float, ...] = LEVELS) -> str:
    """Markdown: mean P&L and CVaR of the loss by strategy, ± half a 95 % interval over paths; best CVaR in bold."""
    figures = {name: loss_figures(found, levels) for name, found in pnl.items()}
    lowest = {level: min(figure.cvar[level] for figure in figures.values()) for level in levels}
    lines = [
        f"| strategy | mean P&L | {' | '.join(f'CVaR{100 * level:.4g} of the loss' for level in levels)} |",
        f"|---|{'---:|' * (1 + len(levels))}",
    ]
    for name, figure in figures.items():
        cells = [_cell(figure.mean, figure.mean_se)]
        for level in levels:
            cell = _cell(figure.cvar[level], figure.cvar_se[level])
            cells.append(f"**{cell}**" if figure.cvar[level] == lowest[level] else cell)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(value: float, standard_error: float) -> str:
    rounded = round(value, 3) + 0.0  # no minus before a zero
    return f"{rounded:.3f} ± {INTERVAL * standard_error:.3f}".replace("-", "−")


@dataclass(frozen=True)
class PositionMap:
    """Mean position in one instrument where paths went, [spots, days]; NaN where too few did."""

    spot_edges: Floats
    mean: Floats


def position_map(
    strategy: Strategy,
    env_kwargs: Mapping[str, Any],
    spot_edges: Floats,
    instrument: int = 0,
    n_paths: int = 100_000,
    seed: int = 0,
    least: int = 10,
) -> PositionMap:
    """What a strategy holds after its trade, by spot and day, averaged over fresh paths.

    A policy also sees its last position and its P&L. Averages over paths show what it does where it comes to be, and
    need no choice of what these would have been.
    """
    dynamics = dynamics_named(env_kwargs.get("dynamics", "black_scholes"))
    units, shape = Units(dynamics), (len(spot_edges) - 1, dynamics.n_steps)
    total, count = np.zeros(shape), np.zeros(shape)

    def watched(observation: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        positions = np.asarray(strategy(observation))
        seen = units.decode(observation)
        held = np.clip(positions[:, instrument], 0.0, dynamics.position_limits[instrument])
        cell = np.searchsorted(spot_edges, seen.spot, side="right") - 1
        inside = (cell >= 0) & (cell < shape[0])
        place = cell[inside], seen.day[inside].astype(np.int64)
        np.add.at(total, place, held[inside])
        np.add.at(count, place, 1.0)
        return positions

    evaluate_strategy(watched, env_kwargs, n_paths, seed)
    return PositionMap(spot_edges, np.where(count >= least, total / np.maximum(count, 1.0), np.nan))
