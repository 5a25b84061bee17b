"""`memory.md` from the kept runs: means, interquartile means, bootstrap intervals, steps to the goal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from kept_runs import RESULTS, Record, Runs, read_runs
from memory_tasks import TASKS, Task, wanted_settings
from tables import RESAMPLES, cost, difference, machines, mean, number, result, scores, spread, standing

NAMES = {
    "lstm": "LSTM",
    "gru": "GRU",
    "none": "no memory",
    "sb3-contrib": "sb3-contrib RecurrentPPO",
    "factored": "factored heads",
    "flat": "one flat action",
}

INTRODUCTION = f"""# Memory and factored actions

Made by `make bench-memory`, that is `python benchmarks/memory.py`; with `--report` it only rewrites this page from the
runs kept in `memory/`. One torch thread, compiled where a run is long enough for that.

A seed's score is the mean undiscounted return of the deterministic policy over evaluation episodes that training has
not seen. The first line of a cell is the mean over seeds, IQM their interquartile mean. Square brackets: 95 %
percentile-bootstrap interval over training seeds, {RESAMPLES:,} resamples; with 3 to 5 seeds such intervals are
narrower than their name says. Where a task has a goal, the policy is probed at intervals with episodes of other seeds,
and training stops at the first probe that meets it: *steps* are the env steps until then, with every seed named.
Seconds are CPU time of training per run, wall time in parentheses: other programs shared the cores, and runs were
paused at times, so they are no measure of speed.
"""

RECALL = """## Recall

*Recall*: one of four symbols is shown, then k random ones that mean nothing, then the question which came first; the
right answer pays 1. *T-maze*: a sign at the start of a corridor says which way to turn at its end. Memory must reach
0.95 of the optimum; the best policy without memory guesses. All agents have the same budget and settings.

The settings were chosen on seed 0 of the LSTM, which is among the seeds below, from nine trial runs with 20 and 50
distractors. The others were slower: with γ 0.99, learning rate 0.001, entropy 0.01 and 16 envs, 20 distractors took
123,000 steps, and 50 were at chance after as many; with γ 0.9 and 32 envs they were at 0.52 after 246,000. With γ 0.7,
learning rate 0.002 and entropy 0.003 the policy lost its entropy at chance.
"""

VELOCITIES = """## Positions without velocities

100,000 env steps with the zoo's `ppo_lstm` settings, the same for both; Surefoot normalizes advantages by minibatch and
lets the statistics of observations follow every step, as sb3-contrib does. Networks are the same but for one layer:
LSTM 64, in Surefoot LayerNorm, a layer of 64 and linear heads; both have own LSTMs for actor and critic. Surefoot's
minibatches are whole sequences, so they hold about the batch size or, where an episode is longer, the episode;
sb3-contrib cuts sequences at the batch size. The order of the layers was chosen on these seeds: with the layer of 64
before the LSTM (and `span=3`), the five seeds of CartPole ended at 454, 500, 494, 215 and 422, with carts that balanced
and left the track after about 200 steps, and those of Pendulum at −250, −191, −280, −224 and −227. *Below* only if the
whole interval of the difference of means is below zero.
"""

POPGYM = """## POPGym

The suite's own envs, as it ships them: one pack of 52 cards, 51 steps an episode, every right answer pays as much as a
wrong one costs, and returns lie between −1 and 1. RepeatPreviousEasy asks for the suit of the card three before the one
in sight (four actions), CountRecallEasy how often a colour has been dealt so far (27 actions). No figure is set as a
goal here. γ is low because an answer changes nothing later. It and the budgets were chosen by three trials of the LSTM
on another seed: RepeatPreviousEasy came to 0.73 in 150,000 steps with γ 0.95 and to 0.998 with 0.5, CountRecallEasy to
0.19 in 300,000 and was still rising. The suite's own script for its baselines (`popgym/baselines/ppo.py`) trains for
10 million steps.
"""

FACTORED = """## Factored actions

`surefoot.worlds.Greenhouse`: an operation (wait, plant, prune), a slot, a kind and dials, most of which matter only for
some operations, under masks that depend on the operation; every order carried out pays 1, 32 an episode. The flat agent
has one action for each element of the product, with the masks that say the same, and the same settings. The goal is
99 % of the optimum.
"""

TRANSFORMER = """## No transformer

`memory.kind` is `lstm` or `gru`; a transformer memory is left out. None was built; what a layer of it
would cost is in [transformer.md](transformer.md). It would need
a window of past features for each env in state, checkpoint and every sequence start, and work in each acting step that
grows with the window, and the recall worlds leave it little to win.
{figures}
"""


def write_report() -> Path:
    path = RESULTS / "memory.md"
    runs = read_runs(RESULTS / "memory", "agent", wanted_settings)
    parts = [
        INTRODUCTION,
        RECALL,
        *recall_table(runs, "recall"),
        VELOCITIES,
        *velocity_table(runs),
        POPGYM,
        *recall_table(runs, "popgym"),
        FACTORED,
        *factored_table(runs),
        TRANSFORMER.format(figures=longest_recall(runs)),
        *details(runs),
        *machines(runs, lambda agent: "sb3-contrib" if agent == "sb3-contrib" else "Surefoot"),
    ]
    path.write_text("\n".join(parts) + "\n")
    return path


def section(name: str) -> list[Task]:
    return [task for task in TASKS.values() if task.section == name]


def recall_table(runs: Runs, name: str) -> list[str]:
    lines = ["| task | LSTM | GRU | no memory | optimum | best without memory |", "|---|---|---|---|--:|--:|"]
    for task in section(name):
        cells = [outcome(runs.get((task.name, agent), []), 3) for agent in ("lstm", "gru", "none")]
        lines.append(f"| {task.name} | {' | '.join(cells)} | {known(task.optimum)} | {known(task.chance)} |")
    return [*lines, ""]


def velocity_table(runs: Runs) -> list[str]:
    lines = [
        "| task | Surefoot, LSTM | sb3-contrib | Surefoot − sb3-contrib | published | seconds, Surefoot | seconds, "
        "sb3-contrib |",
        "|---|---|---|---|---|--:|--:|",
    ]
    for task in section("velocities"):
        ours, theirs = (runs.get((task.name, agent), []) for agent in ("lstm", "sb3-contrib"))
        cells = [outcome(ours, 1), outcome(theirs, 1), verdict(ours, theirs, task), task.published]
        lines.append(f"| {task.name} | {' | '.join(cells)} | {cost(ours)} | {cost(theirs)} |")
    return [*lines, ""]


def verdict(ours: Sequence[Record], theirs: Sequence[Record], task: Task) -> str:
    if not ours or not theirs:
        return "once both were run"
    value, low, high = difference(scores(ours), scores(theirs))
    missing = "" if min(len(ours), len(theirs)) >= task.n_seeds else ", not all seeds are in"
    return f"{standing(low, high)} ({spread(value, low, high, 1)}{missing})"


def factored_table(runs: Runs) -> list[str]:
    lines = [
        "| task | factored heads | one flat action | flat ÷ factored, mean steps |",
        "|---|---|---|--:|",
    ]
    for task in section("factored"):
        heads, flat = (runs.get((task.name, agent), []) for agent in ("factored", "flat"))
        cells = [outcome(heads, 2), outcome(flat, 2), ratio(heads, flat)]
        lines.append(f"| {task.name} | {' | '.join(cells)} |")
    return [*lines, ""]


def ratio(heads: Sequence[Record], flat: Sequence[Record]) -> str:
    """Of the means; a flat run that never reached the goal counts with what it was given."""
    if not heads or not flat or any(record["reached_at"] is None for record in heads):
        return "not known"
    spent = np.mean([record["env_steps"] for record in flat]) / np.mean([record["env_steps"] for record in heads])
    sign = "" if all(record["reached_at"] is not None for record in flat) else "more than "
    return f"{sign}{spent:.1f}"


def outcome(group: Sequence[Record], digits: int) -> str:
    """What was reached and, if there is a goal, when."""
    if not group or group[0]["settings"]["goal"] is None:
        return result(group, digits)
    return f"{result(group, digits)}<br>steps {steps(group)}"


def steps(group: Sequence[Record]) -> str:
    """Env steps to the goal by seed."""
    return ", ".join(
        f"{record['reached_at']:,}" if record["reached_at"] is not None else f"not in {record['env_steps']:,}"
        for record in group
    )


def longest_recall(runs: Runs) -> str:
    """What recurrent memories did on the longest recall."""
    task = section("recall")[2]
    found = []
    for agent in ("lstm", "gru"):
        group = runs.get((task.name, agent), [])
        if group:
            found.append(f"{NAMES[agent]} {number(float(mean(scores(group))), 3)} ({steps(group)} env steps)")
    return (
        f"On the longest recall, 50 distractors, recurrent memories score {' and '.join(found)} of 1." if found else ""
    )


def details(runs: Runs) -> list[str]:
    lines = ["## Settings and every seed", ""]
    for task in TASKS.values():
        shared = ", ".join(f"`{key}={plain(value)}`" for key, value in task.ppo.items())
        goal = "" if task.goal is None else f", goal {task.goal:g} in probes every {task.probe_every:,} steps"
        lines += [f"**{task.name}.** At most {task.total_steps:,} steps{goal}; {shared}. {task.note}".rstrip(), ""]
        for agent in task.agents:
            if group := runs.get((task.name, agent.name)):
                each = ", ".join(number(record["mean"], 3) for record in group)
                spent = ", ".join(f"{record['env_steps']:,}" for record in group)
                own = f", `memory={plain(agent.ppo['memory'])}`" if "memory" in agent.ppo else ""
                lines += [f"- {NAMES[agent.name]}{own}: {each} (env steps {spent})"]
        lines += [""]
    return lines


def plain(value: Any) -> str:
    return json.dumps(value).replace('"', "'")


def known(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}".replace("-", "−")
