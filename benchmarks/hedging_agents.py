"""Hedging an option under tail risk: agents by the presets beside classical rules and published figures.

    python benchmarks/hedging_agents.py --jobs 2
    python benchmarks/hedging_agents.py --report

One JSON per run is kept under `benchmarks/results/hedging/`; a run that is there is not run again, so the program may
be stopped and started at will. The page has two pictures beside it.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from kept_runs import RESULTS, Record, bring_up_to_date, parser_of, read

from surefoot.config.hedging_presets import HEDGING_PRESETS
from surefoot.hedging.baselines import best_band_within, classical_strategies
from surefoot.hedging.dynamics import Floats, dynamics_named
from surefoot.hedging.evaluation import cvar_loss, evaluate_strategy, loss_figures
from surefoot.hedging.report import loss_table
from surefoot.hedging.strategies import Delta
from surefoot.train.hedging_demo import N_PATHS, PATHS_SEED, train_hedger, without_stagger

FOLDER = RESULTS / "hedging"
LEVELS = (0.5, 0.95, 0.99)


@dataclass(frozen=True)
class HedgingJob:
    """One agent of a preset."""

    name: str
    seed: int

    def path(self) -> Path:
        return FOLDER / self.name / f"seed{self.seed}.json"

    def run(self) -> Record:
        settings = HEDGING_PRESETS[self.name]
        world = without_stagger(settings["env_kwargs"])
        trained = train_hedger(self.name, self.seed)
        pnl = evaluate_strategy(trained.strategy, world, N_PATHS, PATHS_SEED)
        figures = loss_figures(pnl, LEVELS)
        logged = trained.agent.logger_values
        if self.seed == 0 and self.name == "hedging-cvar95":
            from surefoot.hedging.pictures import draw_positions

            delta = Delta(dynamics_named(world["dynamics"]))
            draw_positions(
                trained.strategy, delta, world, RESULTS / "hedging_positions.svg", names=("CVaR95 agent", "delta")
            )
        return {
            "task": self.name,
            "seed": self.seed,
            "settings": wanted_settings({"task": self.name}),
            "mean": figures.mean,
            "cvar": {f"{level:g}": figures.cvar[level] for level in LEVELS},
            "cvar_error": {f"{level:g}": figures.cvar_se[level] for level in LEVELS},
            "training_cvar_se": logged.get("risk/cvar_se"),
            "multiplier": logged.get("risk/multiplier"),
            "env_steps": trained.agent.num_timesteps,
            "wall_seconds": trained.seconds,
            "commit": commit(),
            "quantiles": quantiles(pnl) if self.seed == 0 else [],
        }


def quantiles(pnl: Floats, n: int = 1000) -> list[float]:
    """As many equally likely values as a picture needs."""
    levels = (np.arange(n) + 0.5) / n
    return [round(float(x), 4) for x in np.quantile(pnl, levels)]


def commit() -> str:
    """Of the code that runs, marked if it was changed since."""
    described = ("git", "describe", "--always", "--dirty", "--exclude", "*")
    return subprocess.run(described, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def wanted_settings(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(HEDGING_PRESETS[record["task"]]))
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, "hedging.md")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--presets", nargs="+", choices=HEDGING_PRESETS, default=list(HEDGING_PRESETS))
    options = parser.parse_args(arguments)
    jobs = [] if options.report else [HedgingJob(name, seed) for name in options.presets for seed in options.seeds]
    return bring_up_to_date(jobs, options.jobs, wanted_settings, partial(write_report, options.seeds))


@dataclass(frozen=True)
class Goal:
    """A row of the page: which figure of which preset must be at most what."""

    row: str
    preset: str
    level: float
    most: float
    reference: str


def goals() -> list[Goal]:
    tree_price = dynamics_named("tree").premium
    return [
        Goal(
            "costs 1 %, CVaR95 agent", "hedging-cvar95", 0.95, 3.30, "delta 4.74, Whalley–Wilmott 3.72, best band 3.41"
        ),
        Goal("the same, 2,048 envs × 10 steps", "hedging-cvar95-10-steps", 0.95, 3.40, "episodes out of step"),
        Goal("the same, 3,072 envs × 5 steps", "hedging-cvar95-5-steps", 0.95, 3.60, "episodes out of step"),
        Goal("no costs", "hedging-frictionless", 0.95, 0.83, "delta 0.83"),
        Goal("binomial tree, no costs", "hedging-tree", 0.95, 0.02 * tree_price, f"2 % of the price {tree_price:.3f}"),
        Goal("Heston, CVaR99 agent", "hedging-heston-cvar99", 0.99, 1.98, "Buehler et al. 2019: 1.8034"),
        Goal("Heston, CVaR50 agent", "hedging-heston-cvar50", 0.5, 0.32, "Buehler et al. 2019: 0.2531"),
    ]


def kept(name: str, seeds: list[int]) -> list[Record]:
    paths = [HedgingJob(name, seed).path() for seed in seeds]
    return [read(path, wanted_settings) for path in paths if path.exists()]


INTRODUCTION = """# Hedging an option under tail risk

Made by `make bench-hedging`, that is `python benchmarks/hedging_agents.py`; with `--report` it only rewrites the page
from the kept runs. Worlds, costs and rules are in [docs/hedging.md](../../docs/hedging.md). Each agent is trained by a
preset of its own (`surefoot train --preset NAME`), chosen on seeds from 100 on, and acts without noise on {paths:,}
fresh paths that no training saw. Losses are positive; a CVaR95 of 3.3 says that the worst 5 % of paths lose 3.3 in the
mean, on an option sold for 2.29.
"""


def write_report(seeds: list[int]) -> Path:
    path = RESULTS / "hedging.md"
    lines = [INTRODUCTION.format(paths=N_PATHS), "## Goals", ""]
    lines += ["| world and agent | goal | mean of seeds | each seed | met | reference | seconds |"]
    lines += ["|---|--:|--:|---|---|---|--:|"]
    lines += [goal_row(goal, kept(goal.preset, seeds), len(seeds)) for goal in goals()]
    lines += ["", *other_goals(seeds), "", MISSED, "## Agents and classical rules", ""]
    for title, names in SECTIONS.items():
        lines += [f"### {title}", "", world_table(names, seeds), ""]
    draw(seeds)
    lines += [
        "![Losses of agents and rules](hedging_losses.svg)",
        "",
        "![Positions of the CVaR95 agent beside delta](hedging_positions.svg)",
        "",
        f"Commits of the runs: {', '.join(commits(seeds)) or 'none yet'}.",
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def goal_row(goal: Goal, group: list[Record], wanted: int) -> str:
    cvar = f"CVaR{100 * goal.level:g} ≤ {goal.most:.3g}"
    if not group:
        return f"| {goal.row} | {cvar} | not run yet | | | {goal.reference} | |"
    found = [record["cvar"][f"{goal.level:g}"] for record in group]
    met = sum(x <= goal.most for x in found)
    interval = f" ± {1.96 * np.std(found, ddof=1) / len(found) ** 0.5:.3f}" if len(found) > 1 else ""
    seconds = np.mean([record["wall_seconds"] for record in group])
    each = ", ".join(f"{x:.3f}" for x in found)
    return (
        f"| {goal.row} | {cvar} | {np.mean(found):.3f}{interval} | {each} | {met} of {wanted} | {goal.reference} | "
        f"{seconds:.0f} |"
    )


def other_goals(seeds: list[int]) -> list[str]:
    """What is no single bound."""
    lines = []
    neutral, averse = kept("hedging-neutral", seeds), kept("hedging-cvar95", seeds)
    if neutral and averse:
        means = [np.mean([r["mean"] for r in group]) for group in (neutral, averse)]
        cvars = [np.mean([r["cvar"]["0.95"] for r in group]) for group in (neutral, averse)]
        held = "yes" if means[0] > means[1] and cvars[0] > cvars[1] else "no"
        lines.append(
            f"- The risk-neutral agent has the better mean ({means[0]:.3f} against {means[1]:.3f}) and the worse "
            f"CVaR95 ({cvars[0]:.2f} against {cvars[1]:.2f}): {held}."
        )
    limited = kept("hedging-limit", seeds)
    if limited:
        world = without_stagger(HEDGING_PRESETS["hedging-limit"]["env_kwargs"])
        band = evaluate_strategy(best_band_within(world, 3.6, 0.95), world, N_PATHS, PATHS_SEED)
        within = [r["cvar"]["0.95"] <= 3.6 + 2 * r["training_cvar_se"] for r in limited]
        above = [r["mean"] >= band.mean() for r in limited]
        each = ", ".join(
            f"CVaR95 {r['cvar']['0.95']:.3f} (± 2 · {r['training_cvar_se']:.3f}), mean {r['mean']:.3f}" for r in limited
        )
        lines.append(
            f"- CVaR constraint, limit −3.6: kept within 2 × the training's `risk/cvar_se` by {sum(within)} of "
            f"{len(limited)}; mean not below that of the best fixed band which keeps it ({band.mean():.3f}, its CVaR95 "
            f"here {cvar_loss(band, 0.95):.3f}): {sum(above)} of {len(limited)}. {each}."
        )
    return lines


MISSED = """## What was missed, and what limits it

- *Tree and Heston.* An exact (tree) or nearly exact hedge exists, so that what is left is the precision of the
  position: a CVaR95 of 2 % of the price on the tree asks for positions right to about half a percent. Tried on seed
  100, CVaR95 on the tree: gae_lambda 0.7 (0.17), 0.98 (0.27), 1 (0.35), a Beta policy (0.24), a larger first std
  (0.25); CVaR99 in the Heston world: gae_lambda 0.8 (2.09), 0.98 (2.03), 1 (2.62), a Beta policy (2.63). Less critic (a
  larger gae_lambda) is worse, so it is not the bootstrapping. Longer training with smaller steps was not tried.
- *The mean under a limit.* The limit is kept by the policy that acts in training, noise included, and tightly so. Its
  noise costs about 0.5 of CVaR95; without it the policy keeps the limit with that room, and earns 0.4 less than a rule
  that uses it. Tried: a Gaussian policy with less noise (it learned too slowly), more and shorter rollouts (the same).
"""

SECTIONS = {
    "Black–Scholes, costs of 1 %": ("hedging-cvar95", "hedging-neutral", "hedging-limit"),
    "Black–Scholes, no costs": ("hedging-frictionless",),
    "Binomial tree": ("hedging-tree",),
    "Heston with a variance swap": ("hedging-heston-cvar99", "hedging-heston-cvar50"),
}


def world_table(names: tuple[str, ...], seeds: list[int]) -> str:
    """Rules on the fresh paths, and agents by the mean of their seeds."""
    world = without_stagger(HEDGING_PRESETS[names[0]]["env_kwargs"])
    rules = {
        rule: evaluate_strategy(strategy, world, N_PATHS, PATHS_SEED)
        for rule, strategy in classical_strategies(world).items()
    }
    rows = [loss_table(rules, LEVELS).rstrip("\n")]
    for name in names:
        group = kept(name, seeds)
        if group:
            cells = [f"{np.mean([r['mean'] for r in group]):.3f}"]
            cells += [f"{np.mean([r['cvar'][f'{level:g}'] for r in group]):.3f}" for level in LEVELS]
            rows.append(f"| agent `{name}`, {len(group)} seeds | {' | '.join(cells).replace('-', '−')} |")
    return "\n".join(rows)


def draw(seeds: list[int]) -> None:
    """Losses of the agents of the first seed and of the rules, with costs."""
    from surefoot.hedging.pictures import draw_losses

    world = without_stagger(HEDGING_PRESETS["hedging-cvar95"]["env_kwargs"])
    pnl = {}
    for title, name in (("CVaR95 agent", "hedging-cvar95"), ("risk-neutral agent", "hedging-neutral")):
        group = kept(name, seeds[:1])
        if group and group[0]["quantiles"]:
            pnl[title] = np.array(group[0]["quantiles"])
    agents = tuple(pnl)
    for rule, strategy in classical_strategies(world).items():
        pnl[rule] = evaluate_strategy(strategy, world, N_PATHS, PATHS_SEED)
    draw_losses(pnl, RESULTS / "hedging_losses.svg", agents=agents, title="Hedging a sold call with costs of 1 %")


def commits(seeds: list[int]) -> list[str]:
    return sorted({record["commit"] for name in HEDGING_PRESETS for record in kept(name, seeds)})


if __name__ == "__main__":
    raise SystemExit(main())
