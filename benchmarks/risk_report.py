"""`risk.md` from the kept runs: what was asked of each world, and whether it came true."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kept_runs import Record, Wanted, read
from risk_worlds import WORLDS, World

TOLERANCE = 0.05

INTRODUCTION = """# Does risk reach the policy?

Made by `make bench-risk`, that is `python benchmarks/risk_limits.py`; with `--report` it only rewrites this page from
the runs kept in `risk/`. Each world has an exact answer (see the classes in `surefoot.worlds`): the best mean return
without a limit, and the best one under a limit on the tail or on the cost. An agent is trained per seed with the
default multiplier settings, then plays the episodes that are said below, sampling its actions as in training. The
defaults of the multiplier were chosen on the safe or risky arm, the costly arm and the windy cliff with seeds 100 and
101; neither the portfolio nor any seed below was looked at for that. Sizes of rollouts are those of earlier trials.

*Violation* is by how much the limit is missed, in percent of the limit (negative: room to spare); *loss* is by how much
the mean return falls short of the best feasible one, in percent of that (negative: above it, by chance or by a
violation). Both must be at most {tolerance:.0%} for every seed. *Flip*: the policy under the tight limit is another one
than under the loose limit, for every seed.
"""

BESIDE = """## Beside OmniSafe

Its PPO-Lagrangian was to keep the same limit on the costly arm. OmniSafe 0.5.0 does not run on Python 3.11: it needs
safety-gymnasium, whose newest version 1.0.0 pins gymnasium 0.28.1 and pygame 2.1.0 (no wheel for Python 3.11; the build
from source stops without SDL). Installed without those pins, with torch 2.13.0, `import omnisafe` fails inside
safety-gymnasium: `ValueError: mutable default <class 'numpy.ndarray'> for field color is not allowed`.
"""


@dataclass(frozen=True)
class Outcome:
    """A world under one limit, over all seeds that were run."""

    limit: float | None
    violations: tuple[float, ...]
    """Empty without a limit."""
    losses: tuple[float, ...]
    traits: tuple[float, ...]
    records: tuple[Record, ...]

    @property
    def holds(self) -> bool:
        """Whether every seed keeps the limit and loses little."""
        return max(self.violations, default=0.0) <= TOLERANCE and max(self.losses) <= TOLERANCE


def judge(world: World, limit: float | None, records: list[Record]) -> Outcome:
    """Violations and losses as shares of the limit and of the best return."""
    best = world.best_return(limit)
    violations: tuple[float, ...] = ()
    if limit is not None:
        sign = 1.0 if world.alpha is None else -1.0
        violations = tuple(sign * (record["limited"] - limit) / abs(limit) for record in records)
    losses = tuple((best - record["mean"]) / abs(best) for record in records)
    return Outcome(limit, violations, losses, tuple(record["trait"] for record in records), tuple(records))


def outcomes(world: World, records: list[Record]) -> list[Outcome]:
    """Of one world: without a limit, with the loose and with the tight one; those that have been run."""
    by_limit = {limit: [r for r in records if r["limit"] == limit] for limit in (None, *world.limits)}
    return [judge(world, limit, group) for limit, group in by_limit.items() if group]


def flips(found: list[Outcome]) -> bool | None:
    """Whether each policy under the tight limit differs from each under the loose one; None if not both were run."""
    limited = [outcome for outcome in found if outcome.limit is not None]
    if len(limited) < 2:
        return None
    loose, tight = limited
    return max(tight.traits) < min(loose.traits)


def write_report(results: Path, seeds: list[int], wanted: Wanted) -> Path:
    """The page from the runs of these seeds that are kept."""
    lines, all_records = [], list[Record]()
    for name in WORLDS:
        records = [read(path, wanted) for path in sorted((results / "risk" / name).glob("*.json"))]
        records = sorted((r for r in records if r["seed"] in seeds), key=lambda record: int(record["seed"]))
        if not records:
            continue
        world = WORLDS[name]()
        found = outcomes(world, records)
        lines += [*section(world, found, len(seeds)), f"Flip: {verdict(flips(found))}.", ""]
        all_records += records
    path = results / "risk.md"
    head = INTRODUCTION.format(tolerance=TOLERANCE)
    path.write_text("\n".join([head, *lines, BESIDE, *machine(all_records)]) + "\n")
    return path


def section(world: World, found: list[Outcome], n_seeds: int) -> list[str]:
    """A heading and a table."""
    lines = [
        f"## {world.title}",
        "",
        f"`{world.env}`, {world.timesteps():,} env steps, {found[0].records[0]['episodes']:,} episodes. "
        f"Limited: {world.quantity}. A policy is described by the {world.trait}.",
        "",
        "| limit | best mean | mean | limited | violation, worst | loss, worst | trait (best) | λ at the end | holds |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    return [*lines, *(row(world, outcome, n_seeds) for outcome in found), ""]


def row(world: World, outcome: Outcome, n_seeds: int) -> str:
    """Means over seeds, and the worst seed."""
    wanted = world.best_trait(outcome.limit)
    multipliers = [record["multiplier"] for record in outcome.records]
    cells = [
        "none" if outcome.limit is None else f"{outcome.limit:g}",
        f"{world.best_return(outcome.limit):.3f}",
        f"{average(outcome.records, 'mean'):.3f}",
        f"{average(outcome.records, 'limited'):.3f}",
        f"{max(outcome.violations):+.1%}" if outcome.violations else "",
        f"{max(outcome.losses):+.1%}",
        f"{sum(outcome.traits) / len(outcome.traits):.3f}" + ("" if wanted is None else f" ({wanted:.3f})"),
        "" if multipliers[0] is None else f"{sum(multipliers) / len(multipliers):.2f}",
        f"{verdict(outcome.holds)}, {len(outcome.records)} of {n_seeds} seeds",
    ]
    return f"| {' | '.join(cells)} |"


def average(records: tuple[Record, ...], key: str) -> float:
    """Mean of a number over seeds."""
    return sum(float(record[key]) for record in records) / len(records)


def verdict(holds: bool | None) -> str:
    """In a word."""
    return "not run" if holds is None else "yes" if holds else "**no**"


def machine(records: list[Record]) -> list[str]:
    """The distinct versions behind the tables, and the time."""
    seen = {", ".join(f"{key} {value}" for key, value in record["versions"].items()) for record in records}
    seconds = sum(float(record["wall_seconds" if "wall_seconds" in record else "seconds"]) for record in records)
    return [
        "## Versions",
        "",
        *sorted(seen),
        "",
        f"{len(records)} runs, {seconds / 60:.0f} minutes of training in all, on cores that others shared.",
    ]
