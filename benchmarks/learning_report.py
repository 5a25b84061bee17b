"""`learning.md` from the kept runs: means, interquartile means, bootstrap intervals and the verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from learning_tasks import TASKS, Task, check_settings

RESAMPLES = 10_000
NAMES = {"surefoot": "Surefoot", "sb3": "SB3", "sb3-zoo": "SB3 as in the zoo"}

INTRODUCTION = """# Does it learn?

Made by `make bench-learning`, that is `python benchmarks/learning.py --system all --task all`; with
`--report` it only rewrites this page from the runs kept in `learning/`. Both systems run the same settings on
the same machine with one torch thread; Surefoot normalises advantages by minibatch and lets the statistics of
observations follow every step, as SB3 does (its own defaults are by rollout).

A seed's score is the mean undiscounted return of the deterministic policy over 100 evaluation episodes (20 on
MuJoCo) with the training normaliser frozen. The first line of a cell is the mean over seeds, IQM their
interquartile mean. Square brackets: 95 % percentile-bootstrap interval over training seeds,
{resamples:,} resamples drawn within task and system; with 3 to 5 seeds such intervals are narrower than their
name says. Surefoot is *below SB3* only if the whole interval of the difference of means is below zero.
Seconds are CPU time of training per run, wall time in parentheses: other programs shared the cores, and runs
were paused at times, so wall times are no measure of speed. Published figures are mean ± deviation as their
source prints them (the zoo's deviation is over the episodes of one run).
"""

Record = dict[str, Any]
Runs = dict[tuple[str, str], list[Record]]
Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]


def interquartile_mean(scores: Floats) -> Floats:
    """Mean of the middle half along the last axis, [..., S] -> [...].

    Each of S sorted scores covers 1/S of the distribution and weighs with the part of it inside [1/4, 3/4],
    so the statistic is defined for any S, not only for multiples of four.
    """
    edges = np.linspace(0.0, 1.0, scores.shape[-1] + 1)
    inside = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    result: Floats = np.sort(scores, axis=-1) @ (inside / inside.sum())
    return result


def mean(scores: Floats) -> Floats:
    result: Floats = scores.mean(axis=-1)
    return result


def resamples(scores: Floats, generator: np.random.Generator) -> Floats:
    """[S] -> [RESAMPLES, S]: whole training runs drawn with replacement, within one task and system."""
    drawn: Floats = scores[generator.integers(len(scores), size=(RESAMPLES, len(scores)))]
    return drawn


def interval(statistics: Floats) -> tuple[float, float]:
    low, high = np.quantile(statistics, [0.025, 0.975])
    return float(low), float(high)


def estimate(scores: Floats, statistic: Statistic) -> tuple[float, float, float]:
    """Value and bounds of its percentile-bootstrap 95 % interval."""
    low, high = interval(statistic(resamples(scores, np.random.default_rng(0))))
    return float(statistic(scores)), low, high


def difference(ours: Floats, theirs: Floats) -> tuple[float, float, float]:
    """Difference of means, each system resampled within itself (its stratum)."""
    generator = np.random.default_rng(0)
    low, high = interval(mean(resamples(ours, generator)) - mean(resamples(theirs, generator)))
    return float(mean(ours) - mean(theirs)), low, high


def verdict(ours: Floats, theirs: Floats, name: str = "SB3") -> str:
    """Below only if the whole interval of the difference is."""
    value, low, high = difference(ours, theirs)
    word = f"**below {name}**" if high < 0 else f"above {name}" if low > 0 else f"not below {name}"
    return f"{word} ({spread(value, low, high, signed=True)})"


def write_report(results: Path) -> Path:
    path = results / "learning.md"
    runs = read_runs(results / "learning")
    path.write_text("\n".join([*header(), *table(runs), *details(runs), *machines(runs)]) + "\n")
    return path


def read_runs(folder: Path) -> Runs:
    """Kept runs by (task, system), sorted by seed."""
    runs: Runs = {}
    for path in sorted(folder.glob("*/*.json")):
        record = json.loads(path.read_text())
        check_settings(record, path)
        runs.setdefault((record["task"], record["system"]), []).append(record)
    return {key: sorted(group, key=lambda record: int(record["seed"])) for key, group in runs.items()}


def header() -> list[str]:
    return [INTRODUCTION.format(resamples=RESAMPLES)]


def table(runs: Runs) -> list[str]:
    lines = [
        "| task | Surefoot | SB3 | Surefoot − SB3 | published | seconds, Surefoot | seconds, SB3 |",
        "|---|---|---|---|---|--:|--:|",
    ]
    for name, task in TASKS.items():
        ours, theirs = runs.get((name, "surefoot"), []), runs.get((name, "sb3"), [])
        published = "<br>".join(f"{each.figure} ([{each.source}]({each.url}))" for each in task.published)
        complete = min(len(ours), len(theirs)) >= task.n_seeds
        compared = verdict(scores(ours), scores(theirs)) if complete else "once all seeds are in"
        lines.append(
            f"| {name} | {result(ours)} | {result(theirs)} | {compared} | {published} | {cost(ours)} | {cost(theirs)} |"
        )
        if zoo := runs.get((name, "sb3-zoo")):
            lines.append(f"| {name}, SB3 with gSDE as in the zoo | | {result(zoo)} | | | | {cost(zoo)} |")
    return [*lines, ""]


def result(group: Sequence[Record]) -> str:
    if not group:
        return "not run yet"
    middle = estimate(scores(group), interquartile_mean)
    return f"{spread(*estimate(scores(group), mean))}<br>IQM {spread(*middle)}<br>{len(group)} seeds"


def scores(group: Sequence[Record]) -> Floats:
    return np.array([record["mean"] for record in group], dtype=np.float64)


def cost(group: Sequence[Record]) -> str:
    if not group:
        return ""
    wall, cpu = (np.mean([record[key] for record in group]) for key in ("wall_seconds", "cpu_seconds"))
    return f"{cpu:.0f} ({wall:.0f})"


def details(runs: Runs) -> list[str]:
    lines = ["## Settings and every seed", ""]
    for name, task in TASKS.items():
        lines += [f"**{name}.** {settings(task)} {task.note}".rstrip(), ""]
        if task.zoo:
            changes = ", ".join(f"`{key}={value}`" for key, value in task.zoo.items())
            lines += [f"SB3 as in the zoo differs in {changes}.", ""]
        for system, title in NAMES.items():
            if group := runs.get((name, system)):
                steps = f"{group[0]['env_steps']:,} env steps, {group[0]['gradient_steps']:,} gradient steps"
                each = ", ".join(f"{number(record['mean'])}" for record in group)
                lines += [f"- {title}: {each} ({steps})"]
        lines += [""] if lines[-1] else []
    return lines


def settings(task: Task) -> str:
    learning_rate = f"{task.learning_rate:g}" + ("→0" if task.anneal_learning_rate else "")
    clip_range = f"{task.clip_range:g}" + ("→0" if task.anneal_clip_range else "")
    normalised = "observations and rewards normalised" if task.normalize else "nothing normalised"
    return (
        f"{task.total_steps:,} steps, {task.n_envs} × {task.n_steps} a rollout, batch {task.batch_size}, "
        f"{task.n_epochs} epochs, γ {task.gamma:g}, λ {task.gae_lambda:g}, learning rate {learning_rate}, "
        f"clip {clip_range}, entropy {task.ent_coef:g}, value {task.vf_coef:g} of (v − y)², "
        f"gradient norm {task.max_grad_norm:g}, {normalised}, "
        f"tanh {'×'.join(map(str, task.hidden_sizes))}, initial log σ {task.log_std_init:g}."
    )


def machines(runs: Runs) -> list[str]:
    """The distinct systems and machines behind the table."""
    seen: dict[str, None] = {}
    for (_, system), group in sorted(runs.items()):
        for record in group:
            machine = dict(record["machine"])
            cpu = f"{machine.pop('cores')} cores of {machine.pop('cpu')}"
            versions = ", ".join(f"{key} {value}" for key, value in machine.items())
            seen[f"- {NAMES[system]} {record['version']}: {cpu}, {versions}"] = None
    return ["## Machine", "", *seen]


def spread(value: float, low: float, high: float, *, signed: bool = False) -> str:
    return f"{number(value, signed=signed)} [{number(low, signed=signed)}, {number(high, signed=signed)}]"


def number(value: float, *, signed: bool = False) -> str:
    digits = 0 if abs(value) >= 1000 else 1
    rounded = round(value, digits) + 0.0  # no minus before a zero
    return f"{rounded:{'+' if signed and rounded else ''}.{digits}f}".replace("-", "−")
