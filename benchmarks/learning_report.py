"""`learning.md` from the kept runs: means, interquartile means, bootstrap intervals and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kept_runs import RESULTS, Record, Runs, read_runs
from learning_tasks import TASKS, Task, wanted_settings
from tables import RESAMPLES, cost, difference, machines, number, result, scores, spread, standing

NAMES = {"surefoot": "Surefoot", "sb3": "SB3", "sb3-zoo": "SB3 as in the zoo"}

INTRODUCTION = f"""# Does it learn?

Made by `make bench-learning`, that is `python benchmarks/learning.py --system all --task all`; with
`--report` it only rewrites this page from the runs kept in `learning/`. Both systems run the same settings on
the same machine with one torch thread; Surefoot normalizes advantages by minibatch and lets the statistics of
observations follow every step, as SB3 does (its own defaults are by rollout).

A seed's score is the mean undiscounted return of the deterministic policy over 100 evaluation episodes (20 on
MuJoCo) with the training normalizer frozen. The first line of a cell is the mean over seeds, IQM their
interquartile mean. Square brackets: 95 % percentile-bootstrap interval over training seeds,
{RESAMPLES:,} resamples drawn within task and system; with 3 to 5 seeds such intervals are narrower than their
name says. Surefoot is *below SB3* only if the whole interval of the difference of means is below zero.
Seconds are CPU time of training per run, wall time in parentheses: other programs shared the cores, and runs
were paused at times, so wall times are no measure of speed. Published figures are mean ± deviation as their
source prints them (the zoo's deviation is over the episodes of one run).
"""


def write_report() -> Path:
    path = RESULTS / "learning.md"
    runs = read_runs(RESULTS / "learning", "system", wanted_settings)
    parts = [INTRODUCTION, *table(runs), *details(runs), *machines(runs, NAMES.__getitem__)]
    path.write_text("\n".join(parts) + "\n")
    return path


def verdict(ours: Sequence[Record], theirs: Sequence[Record], name: str) -> str:
    value, low, high = difference(scores(ours), scores(theirs))
    return f"{standing(low, high, name)} ({spread(value, low, high, signed=True)})"


def table(runs: Runs) -> list[str]:
    lines = [
        "| task | Surefoot | SB3 | Surefoot − SB3 | published | seconds, Surefoot | seconds, SB3 |",
        "|---|---|---|---|---|--:|--:|",
    ]
    for name, task in TASKS.items():
        ours, theirs = runs.get((name, "surefoot"), []), runs.get((name, "sb3"), [])
        published = "<br>".join(f"{each.figure} ([{each.source}]({each.url}))" for each in task.published)
        complete = min(len(ours), len(theirs)) >= task.n_seeds
        compared = verdict(ours, theirs, "SB3") if complete else "once all seeds are in"
        lines.append(
            f"| {name} | {result(ours)} | {result(theirs)} | {compared} | {published} | {cost(ours)} | {cost(theirs)} |"
        )
        if zoo := runs.get((name, "sb3-zoo")):
            lines.append(f"| {name}, SB3 with gSDE as in the zoo | | {result(zoo)} | | | | {cost(zoo)} |")
    return [*lines, ""]


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
    normalized = "observations and rewards normalized" if task.normalize else "nothing normalized"
    return (
        f"{task.total_steps:,} steps, {task.n_envs} × {task.n_steps} a rollout, batch {task.batch_size}, "
        f"{task.n_epochs} epochs, γ {task.gamma:g}, λ {task.gae_lambda:g}, learning rate {learning_rate}, "
        f"clip {clip_range}, entropy {task.ent_coef:g}, value {task.vf_coef:g} of (v − y)², "
        f"gradient norm {task.max_grad_norm:g}, {normalized}, "
        f"tanh {'×'.join(map(str, task.hidden_sizes))}, initial log σ {task.log_std_init:g}."
    )
