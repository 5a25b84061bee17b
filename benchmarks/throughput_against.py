"""Compiled rows of ``make bench`` beside those of another commit: ``python benchmarks/throughput.py --against COMMIT``.

Both run in turns in one run, each by the benchmarks of its own tree, with one thread; compared are median CPU times.
"""

from __future__ import annotations

import json
import statistics
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from throughput_child import HERE, PAUSE, Child, git, this_commit

RESULTS = HERE / "results"
KEPT = RESULTS / "against.json"
LEAST_MEAN, LEAST_ROW = 0.95, 0.85
"""Goals: of the geometric mean over the rows, and of each."""
OLD_NAMES = {"surefoot-normalized": "surefoot-normalised"}
"""Systems that earlier commits know by another name."""
OTHER_WORK = {
    "batch256, surefoot-risk": "since ca4f7be tail risk has a critic of its own, which is trained too (9 of the 16 "
    "ms), and the policy is shown the return so far (4 ms)"
}
"""Rows in which later commits do more, and what."""
Row = dict[str, Any]


def run_against(commit: str, rows: list[tuple[str, str]], repeats: int, iterations: int) -> None:
    """Compare (workload, system) by (workload, system), and write the page after each; earlier rows against the same
    commit keep their figures."""
    theirs = git("rev-parse", "--short", commit)
    kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    if kept.get("against") != theirs:
        kept = {"against": theirs, "rows": {}}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        git("archive", "--output", str(tree / "tree.tar"), commit, "src", "benchmarks")
        with tarfile.open(tree / "tree.tar") as archive:
            archive.extractall(tree, filter="data")
        for workload, system in rows:
            known = name_there(tree, workload, system)
            if known is None:
                print(f"{workload}, {system}: not in {theirs}", flush=True)
                continue
            kept["rows"][f"{workload}, {system}"] = compare(tree, workload, system, known, repeats, iterations)
            KEPT.write_text(json.dumps(kept, indent=1), encoding="utf-8")
            (RESULTS / "against.md").write_text(page(theirs, kept["rows"]), encoding="utf-8")
    print((RESULTS / "against.md").read_text(encoding="utf-8"))


def name_there(tree: Path, workload: str, system: str) -> str | None:
    """What the benchmarks of a tree call a system; None if they do not know it, or not the workload."""
    source = (tree / "benchmarks" / "throughput_systems.py").read_text(encoding="utf-8")
    names = (system, OLD_NAMES.get(system)) if f'"{workload}": Workload(' in source else ()
    return next((name for name in names if name and f'"{name}": {{' in source), None)


def compare(tree: Path, workload: str, system: str, known: str, repeats: int, iterations: int) -> Row:
    """One row, in turns; who begins changes from round to round."""
    ours, theirs = Child.start_of(HERE.parent, system, workload), Child.start_of(tree, known, workload)
    pair = [ours, theirs]
    for child in pair:
        child.run(2)
    for _ in range(repeats):
        for child in pair:
            time.sleep(PAUSE)
            child.time(iterations)
        pair.reverse()
    for child in pair:
        child.close()
    assert ours.last["env_steps"] == theirs.last["env_steps"], (ours.last, theirs.last)
    row = {
        "ours": [cpu / iterations for cpu in ours.cpus],
        "theirs": [cpu / iterations for cpu in theirs.cpus],
        "mean_returns": [ours.last["mean_return"], theirs.last["mean_return"]],
        "commit": this_commit(),
    }
    print(f"{workload}, {system}: {ratio(row):.3f}", flush=True)
    return row


def ratio(row: Row) -> float:
    """How many times as fast ours is."""
    ours, theirs = (float(statistics.median(row[whose])) for whose in ("ours", "theirs"))
    return theirs / ours


def page(against: str, rows: dict[str, Row]) -> str:
    """The page."""
    ratios = {name: ratio(row) for name, row in rows.items()}
    lines = [
        f"# As fast as {against}?",
        "",
        f"Made by `python benchmarks/throughput.py --against {against}`. CPU time of an iteration, compiled, of this",
        "commit and of the other in turns, each by the benchmarks of its own tree; compilation is not in it. Every row",
        "with one thread, also where `make bench` takes two: CPU time of two that wait for each other says little.",
        "",
        f"The ratio is theirs by ours, of medians (below 1: slower than {against}), with the middle half of rounds.",
        "Mean returns are those at the end, ours and theirs: episodes of other lengths are other work.",
        "",
        "| workload, system | ours | theirs | ratio | rounds | mean returns | our commit |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for name, row in rows.items():
        rounds = [b / a for a, b in zip(row["ours"], row["theirs"], strict=True)]
        low, _, high = statistics.quantiles(rounds, n=4)
        ours, theirs = (statistics.median(row[whose]) * 1e3 for whose in ("ours", "theirs"))
        returns = " / ".join(f"{x:.0f}" for x in row["mean_returns"])
        lines.append(
            f"| {name} | {ours:.1f} ms | {theirs:.1f} ms | {ratios[name]:.2f} [{low:.2f}, {high:.2f}] | {len(rounds)} "
            f"| {returns} | {row['commit']} |"
        )
    lines += ["", f"- {verdict('All rows', ratios)}"]
    alike = {name: found for name, found in ratios.items() if name not in OTHER_WORK}
    if alike and alike != ratios:
        lines.append(f"- {verdict('Rows of the same work', alike)}")
    lines += [f"- {name}: {what}." for name, what in OTHER_WORK.items() if name in ratios]
    return "\n".join(lines) + "\n"


def verdict(which: str, ratios: dict[str, float]) -> str:
    """Geometric mean and lowest of some rows, beside their goals."""
    mean, lowest = statistics.geometric_mean(ratios.values()), min(ratios, key=lambda name: ratios[name])
    of_mean, of_lowest = (
        "met" if found >= goal else "**missed**" for found, goal in ((mean, LEAST_MEAN), (ratios[lowest], LEAST_ROW))
    )
    return (
        f"{which} ({len(ratios)}): geometric mean {mean:.3f} (goal ≥ {LEAST_MEAN}: {of_mean}), "
        f"lowest {lowest}, {ratios[lowest]:.3f} (goal ≥ {LEAST_ROW}: {of_lowest})."
    )
