"""Are rewards of any size learned with the defaults? (A07)

    python benchmarks/reward_scales.py
    python benchmarks/reward_scales.py --report

One JSON per cell of the table, that is five runs, is kept under `benchmarks/results/reward_scales/`; a cell that is
there is not run again, so the program may be stopped and started at will.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kept_runs import RESULTS, Record, bring_up_to_date, parser_of, read
from tables import machines, number

SIZES = (1e-6, 1.0, 1e6)
CRITICS = ("scalar", "quantile", "categorical")
TRUNKS = {"own": False, "shared": True}
SEEDS = (20, 21, 22, 23, 24)
STEPS = 20_000
EVALUATION_EPISODES = 100
GOAL = 0.95
WORLDS: dict[str, dict[str, Any]] = {
    "two symbols, one step": {"n": 2, "length": 1},
    "four symbols, one step": {"n": 4, "length": 1},
    "two symbols, eight steps": {"n": 2, "length": 8},
}
ONLY_PLAIN = "two symbols, eight steps"
"""Met by a scalar critic with its own trunk alone."""

INTRODUCTION = f"""# Rewards of any size with the defaults

Made by `make bench-rewards`, that is `python benchmarks/reward_scales.py`; with `--report` it only rewrites the page
from the kept runs. {{commits}}

One of n symbols is observed; to say it pays the reward, anything else 0. The next symbol is independent of all that was
done. Everything is as `PPO(env, n_envs=8)` has it but for the kind of critic and whether actor and critic share their
trunk; {STEPS:,} env steps, which are ten updates. The score is the share of the best return: in the last 100 episodes
before the last update, and in {EVALUATION_EPISODES} episodes of the deterministic policy afterwards. The goal is {GOAL}
for each of the seeds {SEEDS[0]} to {SEEDS[-1]}; **bold** misses it. The defaults were chosen on other seeds.

In an episode of eight steps what a step is worth depends on how many are left, which cannot be observed. Ten updates
are too few there to give up exploring, whatever the reward is.
"""


@dataclass(frozen=True)
class Cell:
    """A world, the size of its reward, a critic and a trunk; with every seed."""

    world: str
    size: float
    critic: str
    trunk: str

    def path(self) -> Path:
        folder = self.world.replace(",", "").replace(" ", "-")
        return RESULTS / "reward_scales" / folder / f"{self.size:g}-{self.critic}-{self.trunk}.json"

    def settings(self) -> dict[str, Any]:
        """What decides the result, as JSON gives it back."""
        return {"world": WORLDS[self.world], "seeds": list(SEEDS), "steps": STEPS, "episodes": EVALUATION_EPISODES}

    def run(self) -> Record:
        return run(self)

    def __str__(self) -> str:
        return f"{self.world}: reward {self.size:g}, {self.critic} critic, {self.trunk} trunk"


def run(cell: Cell) -> Record:
    """All seeds of a cell as the JSON record that is kept."""
    import torch
    import training
    from reward_worlds import Saying

    from surefoot import PPO

    torch.set_num_threads(1)
    world = WORLDS[cell.world]
    best = cell.size * world["length"]
    policy, critic = {"shared": TRUNKS[cell.trunk]}, {"kind": cell.critic}
    found = []
    for seed in SEEDS:
        env = partial(Saying, **world, size=cell.size)
        agent = PPO(env, n_envs=8, seed=seed, compile=False, policy=policy, critic=critic)
        trained = training.train_surefoot(agent, STEPS, EVALUATION_EPISODES)
        agent.close()
        found.append((trained, agent.logger_values["rollout/ep_rew_mean"] / best))
    training_scores = [score for _, score in found]
    return {
        "cell": vars(cell),
        "version": found[0][0].version,
        "commit": commit(),
        "settings": cell.settings(),
        "training": training_scores,
        "deterministic": [sum(trained.returns) / len(trained.returns) / best for trained, _ in found],
        "mean": min(training_scores),
        "env_steps": found[0][0].env_steps,
        "wall_seconds": sum(trained.wall_seconds for trained, _ in found),
        "cpu_seconds": sum(trained.cpu_seconds for trained, _ in found),
        "machine": training.machine(),
    }


def commit() -> str:
    """Of the source, with a mark if it was changed since."""
    here = ("git", "-C", str(Path(__file__).parent))
    found = subprocess.run((*here, "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=True)
    changed = subprocess.run((*here, "diff", "--quiet", "HEAD", "--", "../src"), check=False).returncode
    return found.stdout.strip() + (" with changes" if changed else "")


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, "reward_scales.md")
    options = parser.parse_args(arguments)
    return bring_up_to_date([] if options.report else cells(), options.jobs, wanted_settings, write_report)


def cells() -> list[Cell]:
    """World by world, so that a stopped benchmark leaves whole tables."""
    return [
        Cell(world, size, critic, trunk)
        for world in WORLDS
        for critic in CRITICS
        for trunk in TRUNKS
        for size in SIZES
        if world != ONLY_PLAIN or (critic, trunk) == ("scalar", "own")
    ]


def wanted_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    return Cell(**record["cell"]).settings()


def write_report() -> Path:
    """The page from the kept cells."""
    kept = {cell: read(cell.path(), wanted_settings) for cell in cells() if cell.path().exists()}
    commits = sorted({record["commit"] for record in kept.values()})
    lines = [INTRODUCTION.format(commits=f"Run at commit {', '.join(commits)}.")]
    for world in WORLDS:
        lines += [
            f"## {world.capitalize()}",
            "",
            "| critic | trunk | reward | training | least | deterministic, least |",
        ]
        lines += ["|---|---|--:|---|--:|--:|"]
        lines += [row(cell, kept.get(cell)) for cell in cells() if cell.world == world]
        lines += [""]
    lines += machines({("", ""): list(kept.values())}, lambda _: "Surefoot")
    path = RESULTS / "reward_scales.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def row(cell: Cell, record: Record | None) -> str:
    start = f"| {cell.critic} | {cell.trunk} | {cell.size:g} |"
    if record is None:
        return f"{start} not run yet | | |"
    scores, deterministic = record["training"], record["deterministic"]
    return (
        f"{start} {', '.join(number(score, 2) for score in scores)} | {judged(min(scores))} | "
        f"{judged(min(deterministic))} |"
    )


def judged(score: float) -> str:
    """Bold where it misses the goal."""
    return number(score, 2) if score >= GOAL else f"**{number(score, 2)}**"


if __name__ == "__main__":
    raise SystemExit(main())
