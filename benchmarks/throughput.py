"""Speed of Surefoot beside its peers on equal work: ``python benchmarks/throughput.py``, or ``make bench``.

Systems run in turns, chunk by chunk, each in its own process with the same number of threads. Reported is the ratio of
median chunk times, with the range of the ratios of single rounds. Compile time is the first chunk, shown apart.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from throughput_against import run_against
from throughput_child import HERE, PAUSE, Child, this_commit
from throughput_limits import checkpoint_cost, import_times, limit_seconds, many_envs, phases, worker_scaling
from throughput_systems import ATTACK_STEPS, WORKLOADS

LEARNED = 40.0
"""Mean return on CartPole that says that something was learned; a random policy has 22."""
PACKAGES = ("torch", "gymnasium", "stable-baselines3", "sb3-contrib", "sbx-rl", "jax")
RESULTS = HERE / "results"
KEPT = RESULTS / "throughput.json"
"""Figures of the last run of each workload; one that is not run again keeps its own."""
HEADS = ["surefoot-factored", "surefoot-flat", "surefoot-eager-factored", "surefoot-eager-flat"]
OPTIONS = [
    "surefoot",
    "surefoot-upgd",
    "surefoot-adaupgd",
    "surefoot-vgs",
    "surefoot-imitation",
    "surefoot-demonstrations",
    "surefoot-robust",
    "surefoot-kl-penalty",
]
COMPARISONS: dict[str, list[str]] = {
    "cartpole": [
        "surefoot",
        "surefoot-eager",
        "sb3",
        "sbx",
        "surefoot-normalized",
        "surefoot-bare",
        "surefoot-eager-bare",
    ],
    "pendulum": ["surefoot", "surefoot-eager", "sb3", "sbx"],
    "wide": ["surefoot", "surefoot-eager", "sb3"],
    "recurrent": ["surefoot", "surefoot-eager", "sb3-recurrent"],
    "recurrent-long": ["surefoot", "surefoot-eager", "sb3-recurrent"],
    "recurrent-slow": ["surefoot", "surefoot-eager", "sb3-recurrent"],
    "recurrent-20": ["surefoot", "surefoot-eager", "sb3-recurrent"],
    "recurrent-short": ["surefoot", "surefoot-eager", "sb3-recurrent"],
    "recurrent, 1 thread": ["surefoot", "sb3-recurrent"],
    "recurrent-20, 1 thread": ["surefoot", "sb3-recurrent"],
    "recurrent-short, 1 thread": ["surefoot", "sb3-recurrent"],
    "masked": ["surefoot", "surefoot-eager", "sb3-maskable"],
    "factored": HEADS,
    "recurrent-factored": HEADS,
    "batch256": ["surefoot-scalar", "surefoot-risk"],
    "options": OPTIONS,
    "options-wide": OPTIONS,
    **{workload: ["surefoot-eager", "surefoot-bfloat16"] for workload in WORKLOADS if workload.startswith("bfloat16")},
}
GOALS = [
    ("cartpole", "surefoot", "sb3", 4.0),
    ("cartpole", "surefoot-eager", "sb3", 1.8),
    ("cartpole", "surefoot", "sbx", 1.7),
    ("wide", "surefoot", "sb3", 1.5),
    ("pendulum", "surefoot", "sb3", 4.0),
    ("recurrent", "surefoot", "sb3-recurrent", 8.0),
    ("recurrent-long", "surefoot", "sb3-recurrent", 8.0),
    ("recurrent-slow", "surefoot", "sb3-recurrent", 8.0),
    ("recurrent-20", "surefoot", "sb3-recurrent", 8.0),
    ("recurrent-short", "surefoot", "sb3-recurrent", 8.0),
    ("recurrent, 1 thread", "surefoot", "sb3-recurrent", 8.0),
    ("recurrent-20, 1 thread", "surefoot", "sb3-recurrent", 8.0),
    ("recurrent-short, 1 thread", "surefoot", "sb3-recurrent", 8.0),
    ("masked", "surefoot", "sb3-maskable", 3.0),
    ("factored", "surefoot-factored", "surefoot-flat", 1 / 1.15),
    ("factored", "surefoot-eager-factored", "surefoot-eager-flat", 1 / 1.15),
    ("recurrent-factored", "surefoot-factored", "surefoot-flat", 1 / 1.15),
    ("recurrent-factored", "surefoot-eager-factored", "surefoot-eager-flat", 1 / 1.15),
    ("cartpole", "surefoot-normalized", "surefoot", 1 / 1.05),
    ("cartpole", "surefoot", "surefoot-bare", 1 / 1.03),
    ("cartpole", "surefoot-eager", "surefoot-eager-bare", 1 / 1.03),
    ("batch256", "surefoot-risk", "surefoot-scalar", 1 / 1.5),
    *[
        (workload, f"surefoot-{option}", "surefoot", 1 / most)
        for workload in ("options", "options-wide")
        for option, most in {
            "upgd": 1.1,
            "adaupgd": 1.1,
            "vgs": 1.1,
            "imitation": 1.5,
            "demonstrations": 1.5,
            "robust": 1.0 + ATTACK_STEPS,
        }.items()
    ],
]
"""(workload, ours, other, how many times as fast ours should be)."""


Results = dict[str, dict[str, dict[str, Any]]]
"""Figures by workload and system."""
FINER = 3
"""Times as many rounds where all systems are ours: what differs by some percent needs more than what differs by times,
and takes less time."""


def compare(workload: str, repeats: int, iterations: int) -> dict[str, Child]:
    """Chunks in turns; asserts that all did the same work and that ours learned."""
    shape = WORKLOADS[workload]
    children = {}
    for system in COMPARISONS[workload]:
        child = Child.start(system, workload)
        child.warm_up = child.run(2)["wall"]
        children[system] = child
    for round_number in range(repeats):
        for child in children.values():
            time.sleep(PAUSE)
            child.time(iterations)
        print(
            f"{workload} round {round_number + 1}/{repeats}: " + _speeds(children, shape.env_steps * iterations),
            flush=True,
        )
    expected = 2 + repeats * iterations
    for child in children.values():
        child.close()
        assert child.last["env_steps"] == expected * shape.env_steps, (child.system, child.last)
        learns = shape.env == "CartPole-v1" and shape.max_steps is None and not shape.still
        if learns and not child.system.startswith(("sb", "surefoot-risk")):
            assert child.last["mean_return"] > LEARNED, (child.system, "has learned nothing", child.last)
        assert child.last["gradient_steps"] == expected * shape.gradient_steps or shape.memory, (
            child.system,
            child.last,
        )
    return children


def _speeds(children: dict[str, Child], steps: int) -> str:
    return ", ".join(f"{name} {steps / child.walls[-1]:.0f}/s" for name, child in children.items())


def summarize(children: dict[str, Child], iterations: int, workload: str) -> dict[str, dict[str, Any]]:
    """Medians and ranges by system."""
    steps = WORKLOADS[workload].env_steps * iterations
    return {
        name: {
            "steps_per_second": steps / statistics.median(child.walls),
            "slowest": steps / max(child.walls),
            "fastest": steps / min(child.walls),
            "cpu_steps_per_second": steps / statistics.median(child.cpus),
            "warm_up_seconds": child.warm_up,
            "mean_return": child.last["mean_return"],
            "walls": child.walls,
            "cpus": child.cpus,
        }
        for name, child in children.items()
    }


def report(results: Results, extras: list[str], made: dict[str, str]) -> str:
    """The page."""
    lines = [
        "# How fast is it?",
        "",
        "Made by `make bench` (`python benchmarks/throughput.py`). Env steps per second of training, systems in turns,",
        "each with one thread (workloads with memory: each with two where nothing else is said); medians of chunks.",
        "Warm-up (first two iterations, compilation included) is not in the speed.",
        "",
        "| workload | system | steps/s, median (range) | rounds | warm-up | mean return |",
        "|---|---|---|--:|---|---|",
    ]
    for workload, systems in results.items():
        for name, r in systems.items():
            lines.append(
                f"| {workload} | {name} | {r['steps_per_second']:.0f} ({r['slowest']:.0f}–{r['fastest']:.0f}) "
                f"| {len(r['walls'])} | {r['warm_up_seconds']:.1f} s | {r['mean_return']:.1f} |"
            )
    lines += [
        "",
        "## Goals",
        "",
        "| workload | ratio | goal | reached (range over rounds) | |",
        "|---|---|---|---|---|",
    ]
    for workload, ours, other, goal in GOALS:
        if workload in results and ours in results[workload]:
            a, b = results[workload][ours], results[workload][other]
            first, second = (r["cpus" if WORKLOADS[workload].still else "walls"] for r in (a, b))
            pairs = [y / x for x, y in zip(first, second, strict=True)]
            ratio = statistics.median(second) / statistics.median(first)
            verdict = "met" if ratio >= goal else "**missed**"
            lines.append(
                f"| {workload} | {ours} / {other} | ≥ {goal:.2f} "
                f"| {ratio:.2f} ({min(pairs):.2f}–{max(pairs):.2f}) | {verdict} |"
            )
    lines += ["", *option_costs(results), *break_even(results), *made_by(results, made), *extras]
    return "\n".join(lines) + "\n"


def option_costs(results: Results) -> list[str]:
    """CPU time of an update with each option, by that without."""
    lines = [
        "## What options cost",
        "",
        "CPU time of an iteration by that of plain PPO, medians, compiled, one thread. The learning rate moves",
        "nothing, so that all see episodes of the same lengths. `options` has hidden layers of 64 and minibatches of",
        f"64 rows, `options-wide` of 256 and of 2,048. SA-PPO (`robust`) has K = {ATTACK_STEPS}; demonstrations are as",
        "many rows as a minibatch has.",
        "",
        "| option | options | options-wide |",
        "|---|--:|--:|",
    ]
    for system in OPTIONS[1:]:
        cells = [_cost(results.get(workload, {}), system, "surefoot") for workload in ("options", "options-wide")]
        lines.append(f"| {system.removeprefix('surefoot-')} | {' | '.join(cells)} |")
    lines += ["", "bfloat16 (`ppo.autocast`) by float32, both in plain torch, by width of the two hidden layers:", ""]
    lines += ["| width | rows of a minibatch | bfloat16 |", "|--:|--:|--:|"]
    for workload, systems in COMPARISONS.items():
        if "surefoot-bfloat16" in systems:
            shape, cost = WORKLOADS[workload], _cost(results.get(workload, {}), "surefoot-bfloat16", "surefoot-eager")
            lines.append(f"| {shape.hidden[0]} | {shape.batch_size} | {cost} |")
    return [*lines, ""]


def _cost(found: dict[str, dict[str, Any]], system: str, without: str) -> str:
    """Median CPU time of a system by that of another."""
    if system not in found or without not in found:
        return "not run"
    first, second = (statistics.median(found[name]["cpus"]) for name in (system, without))
    return f"{first / second:.2f}"


def made_by(results: Results, made: dict[str, str]) -> list[str]:
    """Which commit the figures of each workload are of, and on which machine they were found."""
    lines = ["## Commits and machines", "", "| workload | commit and machine |", "|---|---|"]
    return [*lines, *(f"| {workload} | {made[workload]} |" for workload in results), ""]


def this_machine() -> str:
    """Processor, and the packages that are installed."""
    found = [f"{os.cpu_count()} cores, {cpu_name()}", f"Python {platform.python_version()}"]
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return ", ".join(found)


def break_even(results: Results) -> list[str]:
    """From how many env steps on compiling pays."""
    lines = [
        "## When compiling pays",
        "",
        "Compiling costs the difference of the two warm-ups, once; it is shown apart and is in no speed above.",
        "",
        "| workload | compiling costs | break-even |",
        "|---|---|---|",
    ]
    for workload, systems in results.items():
        if "surefoot" in systems and "surefoot-eager" in systems:
            compiled, eager = systems["surefoot"], systems["surefoot-eager"]
            extra = compiled["warm_up_seconds"] - eager["warm_up_seconds"]
            steps = extra / (1 / eager["steps_per_second"] - 1 / compiled["steps_per_second"])
            gradient_steps = steps / WORKLOADS[workload].env_steps * WORKLOADS[workload].gradient_steps
            lines.append(
                f"| {workload} | {extra:.0f} s | {steps:,.0f} env steps = {gradient_steps:,.0f} gradient steps |"
            )
    return [*lines, ""]


def cpu_name() -> str:
    """As the system says it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main() -> None:
    """Run what is asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="*", default=list(COMPARISONS), help="the others keep their figures")
    parser.add_argument("--repeats", type=int, default=13, help="rounds; more are made where all systems are ours")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--skip-extras", action="store_true")
    parser.add_argument(
        "--against", metavar="COMMIT", help="compiled rows beside those of that commit, and nothing else"
    )
    arguments = parser.parse_args()
    if arguments.against:
        rows = [
            (workload, system)
            for workload in arguments.workloads
            for system in COMPARISONS[workload]
            if system.startswith("surefoot") and "eager" not in system
        ]
        run_against(arguments.against, rows, arguments.repeats, arguments.iterations)
        return
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"speeds": {}, "made": {}, "extras": []}
    for workload in arguments.workloads:
        among_own = all(system.startswith("surefoot") for system in COMPARISONS[workload])
        children = compare(workload, arguments.repeats * (FINER if among_own else 1), arguments.iterations)
        kept["speeds"][workload] = summarize(children, arguments.iterations, workload)
        kept["made"][workload] = f"{this_commit()}; {this_machine()}"
    if not arguments.skip_extras:
        parts = (limit_seconds, phases, checkpoint_cost, many_envs, worker_scaling, import_times)
        kept["extras"] = [line for part in parts for line in part()]
    RESULTS.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    speeds = {workload: kept["speeds"][workload] for workload in COMPARISONS if workload in kept["speeds"]}
    (RESULTS / "throughput.md").write_text(report(speeds, kept["extras"], kept["made"]), encoding="utf-8")
    print((RESULTS / "throughput.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
