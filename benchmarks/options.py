"""What options beside plain PPO do: robustness, imitation, noisy gradients, penalties and bounds.

    python benchmarks/options.py
    python benchmarks/options.py --experiment robust --jobs 2
    python benchmarks/options.py --smoke          # tiny budgets, into a scratch folder: does it run?
    python benchmarks/options.py --report

One JSON per run is kept under `benchmarks/results/options/`; a run that is there is not run again.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import options_penalties
import options_robust
from kept_runs import RESULTS, Record, bring_up_to_date, execute, parser_of, read
from tables import difference, estimate, machines, mean, number, scores, spread

SEEDS = tuple(range(100, 110))
NOISE = 10.0
"""Of the noisy head's rewards, which are 0 or 1: standard deviation. Chosen, like the rates, on seeds 0 and 1."""
CONTENDERS: dict[str, dict[str, dict[str, Any]]] = {
    **options_robust.CONTENDERS,
    "imitation": {
        "plain": {},
        "three demonstrations": {"imitation": {"coef": "linear(1, 0)", "beta": None}},
        "own rollouts": {"imitation": {"coef": 0.1, "beta": 1.0}},
    },
    "noise": {
        "plain": {},
        "vgs 0.01": {"vgs": {"alpha": 0.01}},
        "vgs 0.1": {"vgs": {"alpha": 0.1}},
        "high rate": {"learning_rate": 2e-3},
        "high rate, vgs 0.01": {"learning_rate": 2e-3, "vgs": {"alpha": 0.01}},
        "high rate, vgs 0.1": {"learning_rate": 2e-3, "vgs": {"alpha": 0.1}},
    },
    "penalties": options_penalties.CONTENDERS,
}
STEPS = {**options_robust.STEPS, "imitation": 200_000, "noise": 40_960, "penalties": options_penalties.STEPS}
MEASURED = {
    "robust": "return on Pendulum under the strongest of four attacks",
    "hopper": "return under the strongest of four attacks",
    "imitation": "env steps until 9 of 10 recent episodes succeed (200000 is the budget: not solved)",
    "noise": "return, that is the share of right choices of a clean and a noisy head",
    "penalties": "what each does to the quantity that it is about",
}


@dataclass(frozen=True)
class Run:
    """One training."""

    experiment: str
    contender: str
    seed: int
    steps: int
    folder: str = "options"

    def path(self) -> Path:
        name = self.contender.replace(",", "").replace(" ", "-")
        return RESULTS / self.folder / self.experiment / f"{name}-{self.seed}.json"

    def settings(self) -> dict[str, Any]:
        return {"steps": self.steps, "contender": CONTENDERS[self.experiment][self.contender]}

    def run(self) -> Record:
        import torch
        import training

        torch.set_num_threads(1)
        started, cpu = time.perf_counter(), time.process_time()
        found = RUNNERS[self.experiment](self, deepcopy(CONTENDERS[self.experiment][self.contender]))
        return {
            "run": vars(self),
            "settings": self.settings(),
            "env_steps": self.steps,
            **found,
            "wall_seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu,
            "version": training.installed_version("surefoot"),
            "machine": training.machine(),
        }

    def __str__(self) -> str:
        return f"{self.experiment}: {self.contender}, seed {self.seed}"


def run_robust(run: Run, settings: dict[str, Any]) -> Record:
    return options_robust.run_robust(options_robust.ENVS[run.experiment], run.seed, run.steps, settings)


def run_imitation(run: Run, settings: dict[str, Any]) -> Record:
    from option_worlds import LongCorridor

    from surefoot import PPO

    with tempfile.TemporaryDirectory() as folder:
        if run.contender == "three demonstrations":
            settings["imitation"]["demonstrations"] = str(Path(folder) / "demos.npz")
            cells = np.tile(np.arange(LongCorridor.N_CELLS - 1), 3)
            actions = [LongCorridor.right_action(int(cell)) for cell in cells]
            shown = np.eye(LongCorridor.N_CELLS, dtype=np.float32)[cells]
            np.savez(settings["imitation"]["demonstrations"], observation=shown, action=np.array(actions))
        agent = PPO(LongCorridor, seed=run.seed, n_envs=8, n_steps=128, ent_coef=0.01, **settings)
        solved = [run.steps]

        def watch(agent: Any, _: Any) -> None:
            if agent.logger_values.get("rollout/success_rate", 0.0) >= 0.9:
                solved.append(agent.num_timesteps)

        agent.learn(run.steps, callback=watch)
    return {"mean": float(min(solved)), "success_rate": agent.logger_values.get("rollout/success_rate", 0.0)}


def run_noise(run: Run, settings: dict[str, Any]) -> Record:
    """Evaluated without the noise, actions sampled; multipliers are means over all updates."""
    from option_worlds import NoisyHead

    from surefoot import PPO

    agent = PPO(partial(NoisyHead, NOISE), seed=run.seed, n_envs=8, **settings)
    multipliers: list[list[float]] = []

    def watch(agent: Any, _: Any) -> None:
        keys = [f"train/head/{head}/vgs_multiplier" for head in agent.learner.family.head_names]
        if keys[0] in agent.logger_values:
            multipliers.append([agent.logger_values[key] for key in keys])

    agent.learn(run.steps, callback=watch)
    heads = dict(zip(("clean", "noisy"), np.mean(multipliers or [[1.0, 1.0]], 0).tolist(), strict=True))
    returns = {
        side: agent.evaluate(500, seed=10_000, deterministic=False, env=partial(NoisyHead, 0.0, i)).mean
        for i, side in enumerate(heads)
    }
    return {"mean": float(np.mean(list(returns.values()))), "returns": returns, "multipliers": heads}


def run_penalties(run: Run, settings: dict[str, Any]) -> Record:
    return options_penalties.run_penalties(run.contender, run.seed, run.steps, settings)


RUNNERS: dict[str, Callable[[Run, dict[str, Any]], Record]] = {
    "robust": run_robust,
    "hopper": run_robust,
    "imitation": run_imitation,
    "noise": run_noise,
    "penalties": run_penalties,
}


def seeds_of(experiment: str) -> tuple[int, ...]:
    return {"robust": options_robust.PENDULUM_SEEDS, "hopper": options_robust.HOPPER_SEEDS}.get(experiment, SEEDS)


def runs(experiments: list[str]) -> list[Run]:
    return [
        Run(experiment, contender, seed, STEPS[experiment])
        for experiment in experiments
        for contender in CONTENDERS[experiment]
        for seed in seeds_of(experiment)
    ]


def smoke() -> int:
    """Each contender once, hardly trained, into a scratch folder."""
    jobs = [
        Run(experiment, contender, SEEDS[0], 4_096, "options-smoke")
        for experiment, contenders in CONTENDERS.items()
        for contender in contenders
    ]
    failed = execute(jobs, 1)
    shutil.rmtree(RESULTS / "options-smoke")
    return 1 if failed else 0


def wanted_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    return Run(**record["run"]).settings()


def write_report() -> Path:
    lines = ["# What options do", "", "Made by `make bench-options`, from the kept runs.", ""]
    every: list[Record] = []
    for experiment, contenders in CONTENDERS.items():
        lines += [f"## {experiment.capitalize()}: {MEASURED[experiment]}", ""]
        table = ["| contender | seeds | mean | 95 % interval | minus the first |", "|---|--:|--:|---|---|"]
        first: Any = None
        groups: dict[str, list[Record]] = {}
        for contender in contenders:
            jobs = [Run(experiment, contender, seed, STEPS[experiment]) for seed in seeds_of(experiment)]
            kept = [read(job.path(), wanted_settings) for job in jobs if job.path().exists()]
            every += kept
            if not kept:
                table.append(f"| {contender} | 0 | not run yet | | |")
                continue
            groups[contender] = kept
            found = scores(kept)
            value, low, high = estimate(found, mean)
            digits = 0 if abs(value) >= 100 else 3
            shown, of = number(value, digits), f"[{number(low, digits)}, {number(high, digits)}]"
            versus = "" if first is None else spread(*difference(found, first), digits, signed=True)
            table.append(f"| {contender} | {len(kept)} | {shown} | {of} | {versus} |")
            first = found if first is None else first
        if experiment != "penalties":  # whose contenders are of two envs
            lines += [*table, ""]
        if experiment in TABLES and groups:
            lines += TABLES[experiment](groups)
    if every:
        lines += machines({("", ""): every}, lambda _: "Surefoot")
    path = RESULTS / "options.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def heads_table(groups: Mapping[str, list[Record]]) -> list[str]:
    """What VGS does to each of the heads, and the difference that it makes at the same rate."""
    lines = ["| contender | multiplier, clean | noisy | return, clean | noisy | both, minus the same rate without |"]
    lines.append("|---|--:|--:|---|---|---|")
    for contender, kept in groups.items():
        cells = [f"{np.mean([record['multipliers'][side] for record in kept]):.2f}" for side in ("clean", "noisy")]
        for side in ("clean", "noisy"):
            cells.append(spread(*estimate(np.array([record["returns"][side] for record in kept]), mean), 3))
        without = groups.get("high rate" if contender.startswith("high rate") else "plain")
        if without is None or without is kept:
            cells.append("")
        else:
            cells.append(spread(*difference(scores(kept), scores(without)), 3, signed=True))
        lines.append(f"| {contender} | {' | '.join(cells)} |")
    return [*lines, ""]


TABLES = {
    "robust": options_robust.pendulum_table,
    "hopper": options_robust.hopper_table,
    "noise": heads_table,
    "penalties": options_penalties.penalties_table,
}
"""What an experiment shows beside the means."""


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, "options.md")
    parser.add_argument("--experiment", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--smoke", action="store_true", help="tiny budgets, nothing is kept")
    options = parser.parse_args(arguments)
    if options.smoke:
        return smoke()
    jobs = [] if options.report else runs(options.experiment)
    return bring_up_to_date(jobs, options.jobs, wanted_settings, write_report)


if __name__ == "__main__":
    raise SystemExit(main())
