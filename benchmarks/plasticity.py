"""Plasticity of the optimizers: can they still learn after many tasks?

    python benchmarks/plasticity.py
    python benchmarks/plasticity.py --stream compass
    python benchmarks/plasticity.py --smoke          # two tasks each, into a scratch folder: does it run?
    python benchmarks/plasticity.py --report

Each optimizer first chooses among its candidates (`plasticity_streams.py`) on tuning seeds, by its mean score in the
last ten tasks of a shorter stream; the tables are of other seeds. One JSON per run is kept under
`benchmarks/results/plasticity/`; a run that is there is not run again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from kept_runs import RESULTS, Record, bring_up_to_date, execute, parser_of, read
from plasticity_streams import STREAMS, Settings, Stream
from tables import Floats, difference, estimate, machines, mean, spread

SEEDS = tuple(range(100, 110))
CONTENDERS = ("adam", "adamw", "upgd", "adaupgd", "upgd, vectors exempt", "adaupgd, vectors exempt")
"""Vectors, such as biases, are exempt with the settings that were chosen without."""
FOLDER, SCRATCH = "plasticity", "plasticity-smoke"


@dataclass(frozen=True)
class Run:
    """One optimizer through one stream of tasks."""

    stream: str
    contender: str
    candidate: str
    seed: int
    n_tasks: int
    folder: str = FOLDER

    def path(self) -> Path:
        name = f"{self.contender} {self.candidate}".replace(",", "").replace(" ", "-")
        kind = "runs" if self.seed in SEEDS else "tuning"
        return RESULTS / self.folder / self.stream / kind / f"{name}-{self.seed}.json"

    def settings(self) -> Settings:
        stream, (optimizer, _, exempt) = STREAMS[self.stream], self.contender.partition(", ")
        found = dict(stream.candidates[optimizer][self.candidate])
        if exempt:
            found["upgd"] = found["upgd"] | {"exempt_vectors": True}
        return {"n_tasks": self.n_tasks, **stream.constants, "contender": found}

    def run(self) -> Record:
        import torch
        import training

        torch.set_num_threads(1)
        started, cpu = time.perf_counter(), time.process_time()
        tasks = STREAMS[self.stream].play(self.settings()["contender"], self.seed, self.n_tasks)
        return {
            "run": vars(self),
            "settings": self.settings(),
            "env_steps": self.n_tasks * STREAMS[self.stream].task_samples,
            "mean": float(np.mean(tasks[-10:])),
            "plasticity": float(np.mean(tasks[-5:]) / np.mean(tasks[:5])),
            "tasks": tasks,
            "wall_seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu,
            "version": training.installed_version("surefoot"),
            "machine": training.machine(),
        }

    def __str__(self) -> str:
        return f"{self.stream}: {self.contender} ({self.candidate}), seed {self.seed}"


def tuning_runs(name: str) -> list[Run]:
    stream = STREAMS[name]
    return [
        Run(name, optimizer, candidate, seed, stream.tuning_tasks)
        for optimizer, candidates in stream.candidates.items()
        for candidate in candidates
        for seed in stream.tuning_seeds
    ]


def tuned(name: str) -> dict[str, dict[str, float]]:
    """Mean of each candidate over the tuning seeds, by optimizer; candidates that were not run are left out."""
    found: dict[str, dict[str, list[float]]] = {optimizer: {} for optimizer in STREAMS[name].candidates}
    for run in tuning_runs(name):
        if run.path().exists():
            score = read(run.path(), wanted_settings)["mean"]
            found[run.contender].setdefault(run.candidate, []).append(score)
    return {optimizer: {which: float(np.mean(x)) for which, x in each.items()} for optimizer, each in found.items()}


def reported_runs(name: str) -> list[Run]:
    """Of each contender, with the candidate that did best on the tuning seeds."""
    best = {optimizer: max(scores, key=scores.__getitem__) for optimizer, scores in tuned(name).items() if scores}
    return [
        Run(name, contender, best[contender.partition(",")[0]], seed, STREAMS[name].n_tasks)
        for seed in SEEDS
        for contender in CONTENDERS
        if contender.partition(",")[0] in best
    ]


def wanted_settings(record: Mapping[str, Any]) -> Settings:
    return Run(**record["run"]).settings()


PREFACE = """
# Plasticity of the optimizers

Made by `make bench-plasticity`, from the kept runs. Plasticity is the mean score of the last five tasks over that of
the first five: below 1, learning has become harder. Means over seeds 100 to 109 with bootstrap 95 % intervals; settings
were chosen on other seeds. Vectors are biases and log standard deviations: exempt from noise and decay.
"""


def write_report() -> Path:
    lines, every = PREFACE.splitlines()[1:], list[Record]()
    for name, stream in STREAMS.items():
        groups: dict[str, list[Record]] = {contender: [] for contender in CONTENDERS}
        for run in reported_runs(name):
            if run.path().exists():
                groups[run.contender].append(read(run.path(), wanted_settings))
        every += [record for group in groups.values() for record in group]
        lines += [
            "",
            f"## {stream.title}",
            "",
            stream.about,
            "",
            *results_table(groups),
            "",
            *tuning_table(name, stream),
        ]
    lines += ["", *machines({("", ""): every}, lambda _: "Surefoot")]
    path = RESULTS / "plasticity.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def results_table(groups: Mapping[str, list[Record]]) -> list[str]:
    lines = ["| contender | seeds | first five tasks | last ten | minus adam | plasticity | minus adam | CPU s |"]
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


def tuning_table(name: str, stream: Stream) -> list[str]:
    first, last = stream.tuning_seeds[0], stream.tuning_seeds[-1]
    lines = [f"Settings: mean score in the last ten of {stream.tuning_tasks} tasks, seeds {first} to {last}.", ""]
    lines += ["| contender | settings | score |", "|---|---|--:|"]
    for optimizer, scores in tuned(name).items():
        for candidate, score in scores.items():
            text = f"**{score:.3f}**" if score == max(scores.values()) else f"{score:.3f}"
            lines.append(f"| {optimizer} | {candidate} | {text} |")
    return lines


def smoke(streams: list[str]) -> int:
    """Each contender once with its first candidate, into a scratch folder."""
    jobs = [
        Run(name, contender, next(iter(STREAMS[name].candidates[contender.partition(",")[0]])), SEEDS[0], 2, SCRATCH)
        for name in streams
        for contender in CONTENDERS
    ]
    try:
        return 1 if execute(jobs, 1) else 0
    finally:
        shutil.rmtree(RESULTS / SCRATCH, ignore_errors=True)


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, "plasticity.md")
    parser.add_argument("--stream", nargs="+", choices=list(STREAMS), default=list(STREAMS))
    parser.add_argument("--smoke", action="store_true", help="two tasks each, nothing is kept")
    options = parser.parse_args(arguments)
    if options.smoke:
        return smoke(options.stream)
    if options.report:
        return bring_up_to_date([], options.jobs, wanted_settings, write_report)
    code = 0
    for make in (tuning_runs, reported_runs):
        jobs = [run for name in options.stream for run in make(name)]
        code = code or bring_up_to_date(jobs, options.jobs, wanted_settings, write_report)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
