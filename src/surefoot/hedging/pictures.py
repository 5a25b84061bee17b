"""Two pictures: losses by strategy with VaR and CVaR marked, and positions over spot and day. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.errors import ConfigError, MissingExtraError
from surefoot.hedging.dynamics import Floats, dynamics_named
from surefoot.hedging.evaluation import cvar_loss, var_loss
from surefoot.hedging.report import position_map
from surefoot.hedging.strategies import Strategy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AGENT, BASELINE, TAIL, INK, PALE = "#2a6f97", "#8d99ae", "#d1495b", "#22223b", "#e5e7ec"
BINS = 150
SPOT_CELLS = 60


def draw_losses(
    pnl: Mapping[str, Floats], path: Path, *, agents: Collection[str] = (), level: float = 0.95, title: str = ""
) -> None:
    """One histogram of −P&L for each strategy, the worst 1 − ``level`` in red; SVG or PNG by the suffix."""
    if not pnl:
        raise ConfigError("there is no P&L to draw")
    lowest = min(float(np.quantile(-found, 0.002)) for found in pnl.values())
    highest = max(cvar_loss(found, level) for found in pnl.values())
    edges = np.linspace(lowest - 0.3, highest + 0.18 * (highest - lowest), BINS)
    figure = _figure((9.0, 0.9 + 1.05 * len(pnl)))
    rows = figure.subplots(len(pnl), 1, sharex=True, squeeze=False)[:, 0]
    for row, (name, found) in zip(rows, pnl.items(), strict=True):
        _histogram(row, name, found, edges, level, AGENT if name in agents else BASELINE)
    rows[-1].set_xlabel(f"loss at maturity; worst {100 * (1 - level):.3g} % of paths in red")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
    _save(figure, path)


def _histogram(row: Axes, name: str, pnl: Floats, edges: Floats, level: float, color: str) -> None:
    loss, var, cvar = -pnl, var_loss(pnl, level), cvar_loss(pnl, level)
    counts, _ = np.histogram(loss, edges)
    # Many paths that end at one point would flatten the rest, so one such bar is cut.
    top = min(counts.max(), 1.6 * np.sort(counts)[-8]) or 1.0
    tail = np.where(edges[:-1] >= var, counts, 0)
    row.stairs(np.minimum(counts, 1.02 * top), edges, fill=True, color=color, alpha=0.75, linewidth=0)
    row.stairs(tail, edges, fill=True, color=TAIL, linewidth=0)
    row.axvline(var, color=TAIL, linewidth=1.1, linestyle=(0, (3, 2)))
    row.axvline(cvar, color=TAIL, linewidth=1.8)
    row.set_ylim(0, 1.4 * top)
    style: dict[str, Any] = {"fontsize": 8.5, "color": TAIL, "transform": row.get_xaxis_transform()}
    gap = 0.006 * (edges[-1] - edges[0])
    row.text(var - gap, 0.84, f"VaR{100 * level:.4g} {var:.2f}", ha="right", **style)
    row.text(cvar + gap, 0.84, f"CVaR{100 * level:.4g} {cvar:.2f}", ha="left", fontweight="bold", **style)
    beyond = float((loss > edges[-1]).mean())
    if beyond > 0.0005:
        row.text(edges[-1] - gap, 0.36, f"{100 * beyond:.1f} % beyond →", ha="right", **style)
    row.set_yticks([])
    row.set_ylabel(
        f"{name}\nmean P&L {_signed(float(pnl.mean()))}",
        rotation=0,
        ha="right",
        va="center",
        fontsize=9,
        color=color if color == AGENT else INK,
        fontweight="bold" if color == AGENT else "normal",
    )
    row.spines[["left", "top", "right"]].set_visible(False)
    row.set_xlim(edges[0], edges[-1])


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def draw_positions(
    policy: Strategy,
    reference: Strategy,
    env_kwargs: Mapping[str, Any],
    path: Path,
    *,
    names: tuple[str, str] = ("agent", "delta"),
    instrument: int = 0,
    n_paths: int = 100_000,
    seed: int = 0,
    title: str = "",
) -> None:
    """Mean position over spot and day on fresh paths: of a policy, of a reference beside it, and the difference."""
    dynamics = dynamics_named(env_kwargs.get("dynamics", "black_scholes"))
    reach = dynamics.strike * 2.6 * dynamics.log_scale
    edges = np.linspace(dynamics.strike - reach, dynamics.strike + reach, SPOT_CELLS + 1)
    ours, theirs = (
        position_map(each, env_kwargs, edges, instrument, n_paths, seed).mean for each in (policy, reference)
    )
    limit = dynamics.position_limits[instrument]
    gap = max(float(np.nanmax(np.abs(ours - theirs))), 0.05 * limit)
    figure = _figure((12.0, 3.9))
    panels = figure.subplots(1, 3, sharey=True)
    days = np.arange(dynamics.n_steps + 1.0) - 0.5
    middles = (edges[1:] + edges[:-1]) / 2.0
    for panel, name, values in zip(panels, names, (ours, theirs), strict=False):
        mesh = panel.pcolormesh(days, edges, values, cmap="viridis", vmin=0.0, vmax=limit, rasterized=True)
        lines = [share * limit for share in (0.25, 0.5, 0.75) if np.nanmin(values) < share * limit < np.nanmax(values)]
        if lines:
            panel.contour(days[:-1] + 0.5, middles, values, levels=lines, colors="white", linewidths=0.9)
        panel.set_title(name, fontsize=10, loc="left", color=INK)
    difference = panels[2].pcolormesh(days, edges, ours - theirs, cmap="RdBu_r", vmin=-gap, vmax=gap, rasterized=True)
    panels[2].set_title(f"{names[0]} minus {names[1]}", fontsize=10, loc="left", color=INK)
    for panel in panels:
        panel.axhline(dynamics.strike, color=INK, linewidth=0.7, linestyle=(0, (2, 3)))
        panel.set_xlabel("day")
        panel.set_facecolor(PALE)
    panels[0].set_ylabel("spot")
    figure.colorbar(mesh, ax=list(panels[:2]), pad=0.015, label="position (lines: ¼, ½, ¾ of the largest)")
    figure.colorbar(difference, ax=panels[2], pad=0.03)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
    _save(figure, path)


def _figure(size: tuple[float, float]) -> Figure:
    """Without pyplot: nothing global is touched, and no window is needed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("pictures need the package matplotlib: pip install 'surefoot[plot]'") from None
    return Figure(figsize=size, layout="constrained", facecolor="white")


def _save(figure: Figure, path: Path) -> None:
    from matplotlib import rc_context

    if path.suffix not in (".svg", ".png"):
        raise ConfigError(f"{path.name}: a picture ends in .svg or .png")
    path.parent.mkdir(parents=True, exist_ok=True)
    # The same figures give the same file: no date, and ids that do not change from run to run.
    with rc_context({"svg.hashsalt": "surefoot"}):
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
