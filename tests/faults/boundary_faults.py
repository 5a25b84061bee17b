"""What comes from outside: files that name code, code that others planted, spaces of any kind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from cli.test_trust import CODE, wicked_checkpoint
from fast.test_code_cache import SHARED
from faults.run_faults import refusal
from faults.samples import FIND_FAULTS, workspace
from surefoot import PPO
from surefoot.actions.heads import heads_of
from surefoot.algo import learner as learning
from surefoot.errors import ConfigError, SurefootError, SurefootWarning
from surefoot.fast.code_cache import NAME, OWN_VARIABLE, TORCH_VARIABLE
from surefoot.fast.kernel import load_kernel
from surefoot.spaces import Layout
from surefoot.store import CheckpointStore, Snapshot, read_checkpoint, write_checkpoint
from train.agents import ROWS, small
from train.test_every_space_saves import LEAVES, SEEN, goes_on_exactly, nested

CANARY = "SUREFOOT_CANARY"
"""Names the file that planted code makes when it runs."""


def child(call: str, place: Path, **environment: str) -> Any:
    """The JSON that a function of this module prints in a process of its own, started in ``place``."""
    code = f"{FIND_FAULTS}import faults.boundary_faults as suite; {call}"
    unwanted = (OWN_VARIABLE, TORCH_VARIABLE)
    known = {key: value for key, value in os.environ.items() if key not in unwanted} | environment
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


PLANTED = f"""
#include <cstdio>
#include <cstdlib>
__attribute__((constructor)) static void run() {{
    if (const char* path = std::getenv("{CANARY}")) if (FILE* file = std::fopen(path, "w")) std::fclose(file);
}}
"""
COMPILED: dict[str, dict[str, Any]] = {
    "gradient steps": {},
    "memory": {"memory": {"kind": "lstm", "hidden_size": 8}},
}
"""Agents that would be compiled."""


def planted_code() -> dict[str, Any]:
    """Directories of compiled code that others can write, with planted code in them: it is not loaded, a warning says
    so, and training goes on. In a directory of our own the same code would run, which shows that it was well planted.
    """
    with tempfile.TemporaryDirectory() as folder:  # not in memory, where nothing may be executable
        place = Path(folder)
        room = {OWN_VARIABLE: str(place / "room" / "cache"), CANARY: str(place / "canary")}
        (place / "room").mkdir()
        child("suite.build()", place, **room)
        plant(place / "room" / "cache" / NAME, place)
        shutil.move(place / "room" / "cache" / NAME, place / "planted")
        outcomes: dict[str, str] = child("suite.train_beside_planted_code()", place, **room)
    runs_if_private = outcomes.pop("private") == "executed"
    problems = [f"{name}: {outcome}" for name, outcome in outcomes.items() if outcome != "uncompiled"]
    return {
        "cases": len(outcomes),
        "trained_uncompiled": len(outcomes) - len(problems),
        "executions": sum(outcome == "executed" for outcome in outcomes.values()),
        "runs_if_private": runs_if_private,
        "problems": problems,
    }


def build() -> None:
    """For `planted_code`: fill a directory of our own."""
    load_kernel()
    print("null")


def plant(directory: Path, place: Path) -> None:
    """Put a library that leaves a file in the place of every compiled one."""
    (place / "planted.cpp").write_text(PLANTED, encoding="utf-8")
    words = ["-shared", "-fPIC", "-o", str(place / "planted.so"), str(place / "planted.cpp")]
    subprocess.run([os.environ.get("CXX", "g++"), *words], check=True)
    libraries = list(directory.rglob("*.so"))
    if not libraries:
        raise RuntimeError(f"nothing was compiled into {directory}")
    for library in libraries:
        shutil.copy(place / "planted.so", library)


def train_beside_planted_code() -> None:
    """For `planted_code`: what came of each kind of directory with each kind of agent."""
    cache, canary = Path(os.environ[OWN_VARIABLE]), Path(os.environ[CANARY])
    outcomes = {}
    for share in SHARED:
        for name, options in COMPILED.items():
            for resumed in (False, True):
                case = f"{share.__name__}, {name}{', resumed' if resumed else ''}"
                with planted(cache, share):
                    outcomes[case] = uncompiled(options, resumed)
                if canary.exists():
                    canary.unlink()
                    outcomes[case] = "executed"
    with planted(cache, private):
        outcomes["private"] = uncompiled({}, resumed=False)
    if canary.exists():
        outcomes["private"] = "executed"
    print(json.dumps(outcomes))


def private(place: Path, patches: pytest.MonkeyPatch) -> None:
    """A directory as it should be."""


@contextmanager
def planted(cache: Path, share: Callable[[Path, pytest.MonkeyPatch], None]) -> Iterator[None]:
    """The planted code in a directory of some kind."""
    shutil.rmtree(cache.parent)
    cache.parent.mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patches:
        share(cache, patches)
        if not cache.is_file():
            for directory in (cache, cache / NAME):
                if not directory.exists():
                    directory.mkdir(mode=0o700)
            for part in (cache.parent.parent / "planted").iterdir():  # the directory itself stays as it is
                copy = shutil.copytree if part.is_dir() else shutil.copy
                copy(part, cache / NAME / part.name)
        yield


def uncompiled(options: dict[str, Any], resumed: bool) -> str:
    """Train an agent that would be compiled if that could be; what came of it."""
    with warnings.catch_warnings(record=True) as told, ExitStack() as undo:
        warnings.simplefilter("always", SurefootWarning)
        for name in ("PAYING_STEPS", "PAYING_KERNEL_STEPS", "PAYING_MEMORY_ROWS"):
            undo.enter_context(patch.object(learning, name, 1))
        try:
            agent = small(**options, compile="auto")
            if resumed:
                state = small(**options).learn(ROWS).learner.state_dict()
                state.values["compiled"] = state.values["kernel"] = True
                agent.learner.load_state_dict(state)
            agent.learn(ROWS)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    said = any("uncompiled: " in str(warning.message) for warning in told)
    if any(agent.learner.compiled_parts):
        return "compiled"
    return "uncompiled" if said else "not told"


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
