"""What comes from outside: files that name code, spaces of any kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from cli.test_trust import CODE, wicked_checkpoint
from faults.run_faults import refusal
from faults.samples import FIND_FAULTS, workspace
from surefoot import PPO
from surefoot.actions.heads import heads_of
from surefoot.errors import ConfigError, SurefootError, SurefootWarning
from surefoot.spaces import Layout
from surefoot.store import CheckpointStore, Snapshot, read_checkpoint, write_checkpoint
from train.agents import ROWS, small
from train.test_every_space_saves import LEAVES, SEEN, goes_on_exactly, nested


def child(call: str, place: Path, module: str = "faults.boundary_faults", **environment: str) -> Any:
    """The JSON that a function of a module prints in a process of its own, started in ``place``."""
    code = f"{FIND_FAULTS}import {module} as suite; {call}"
    known = os.environ | environment
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, cwd=place, env=known, timeout=600
    )
    return json.loads(done.stdout)


WICKED: dict[str, dict[str, Any]] = CODE | {
    "a key": {"env": "CartPole-v1", "env_kwargs": {"wicked:make": 1}},
    "a version": {"env": "wicked:Id-v0", "env_kwargs": {}},
    "two colons": {"env": "wicked:make:more", "env_kwargs": {}},
    "nothing after the colon": {"env": "wicked:", "env_kwargs": {}},
    "a line more": {"env": "wicked:make\n", "env_kwargs": {}},
    "a builtin": {"env": "builtins:exec", "env_kwargs": {"source": "open('executed', 'w')"}},
    "a program": {"env": "subprocess:run", "env_kwargs": {"args": ["touch", "executed"]}},
}
DOORS = ("PPO.load", "surefoot eval", "surefoot resume", "surefoot resume --fresh", "surefoot train --config")


def code_in_files() -> dict[str, Any]:
    """Every name of code in a checkpoint, a run and a configuration is refused alike, and none of it runs."""
    with workspace() as place:
        (place / "wicked.py").write_text("open('executed', 'w').close()\n", encoding="utf-8")
        outcomes: dict[str, str] = child("suite.open_wicked_files()", place)
    problems = [f"{name}: {outcome}" for name, outcome in outcomes.items() if outcome != "refused"]
    return {
        "files": len(outcomes),
        "refused": len(outcomes) - len(problems),
        "executions": sum(outcome == "executed" for outcome in outcomes.values()),
        "problems": problems,
    }


def open_wicked_files() -> None:
    """For `code_in_files`: what came of each name at each door."""
    outcomes = {}
    for name, config in WICKED.items():
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for door in DOORS:
                said = opened(door, Path(folder), config)
                refused = "would import the module" in said and "--trust-module" in said and "Traceback" not in said
                executed = Path("executed").exists()
                Path("executed").unlink(missing_ok=True)
                outcomes[f"{door}, {name}"] = "executed" if executed else "refused" if refused else said or "accepted"
    print(json.dumps(outcomes))


def opened(door: str, folder: Path, config: dict[str, Any]) -> str:
    """What is said to someone who opens a file that says so."""
    match door:
        case "PPO.load" | "surefoot eval":
            path = wicked_checkpoint(folder / "agent", config)
            return refusal(["eval", str(path)]) if door == "surefoot eval" else refused_load(path)
        case "surefoot resume":
            return refusal(["resume", str(wicked_run(folder / "run", config)), "--total-timesteps", "96", "--quiet"])
        case "surefoot resume --fresh":
            run = wicked_run(folder / "broken", config)
            for file in run.glob("checkpoints/*/*"):
                file.write_bytes(b"broken")
            return refusal(["resume", str(run), "--fresh", "--quiet"])
    (folder / "my.toml").write_text(toml(config), encoding="utf-8")
    return refusal(["train", "--config", str(folder / "my.toml"), "--run-dir", str(folder / "new"), "--quiet"])


def toml(config: dict[str, Any]) -> str:
    """Lines of a configuration file."""
    return "".join(f"{key} = {_toml(value)}\n" for key, value in config.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(part)}" for key, part in value.items()) + "}"
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else json.dumps(value)


def refused_load(path: Path) -> str:
    """What `PPO.load` says, be it at once or where the env is made."""
    try:
        PPO.load(path).learn(ROWS)
    except ConfigError as error:
        return str(error)
    except BaseException as error:
        return f"Traceback: {type(error).__name__}: {error}"
    return ""


def wicked_run(run: Path, config: dict[str, Any]) -> Path:
    """A run whose configuration and newest checkpoint say so."""
    small(run={"sinks": (), "checkpoint_every": 0}).learn(ROWS, run_dir=run)
    given = (run / "config.toml").read_text(encoding="utf-8")
    others = given.replace('env = "CartPole-v1"\n', "").replace("[env_kwargs]\n", "")
    (run / "config.toml").write_text(toml(config) + others, encoding="utf-8")
    path = CheckpointStore(run / "checkpoints").latest().path
    snapshot, manifest = read_checkpoint(path)
    saved: Any = snapshot.values["config"]
    values = {**snapshot.values, "config": saved | config}
    write_checkpoint(
        path,
        Snapshot(snapshot.tensors, values),
        exact=True,
        config_hash=manifest.config_hash,
        versions=manifest.versions,
        step=manifest.step,
    )
    return run


def any_space(n: int = 300, seed: int = 0) -> dict[str, Any]:
    """Random nested spaces of observations and actions: trained, saved, loaded, and trained on as if nothing was."""
    equal, refused, problems = 0, 0, []

    @seeded(seed)
    @settings(
        max_examples=n, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(nested(SEEN), nested(LEAVES))
    def each(seen: Any, done: Any) -> None:
        nonlocal equal, refused
        try:
            numbers = any(leaf.is_continuous for leaf in Layout.of(seen).leaves)
            heads_of(done)
        except SurefootError:  # two parts with one name
            refused += 1
            return
        try:
            same = goes_on_exactly(seen, done, normalize_observations=numbers)
        except Exception as error:
            problems.append(f"{seen} -> {done}: {type(error).__name__}: {error}")
            return
        equal += same
        if not same:
            problems.append(f"{seen} -> {done}: differs")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)
        each()
    return {"spaces": equal + len(problems), "equal": equal, "refused": refused, "problems": problems}
