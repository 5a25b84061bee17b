"""A fault suite: code that others planted where compiled code is looked for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fast.test_code_cache import SHARED
from faults.boundary_faults import child
from surefoot.errors import SurefootWarning
from surefoot.fast import acceleration
from surefoot.fast.code_cache import NAME, OWN_VARIABLE
from surefoot.fast.kernel import load_kernel
from train.agents import ROWS, small

CANARY = "SUREFOOT_CANARY"
"""Names the file that planted code makes when it runs."""

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
        child("suite.build()", place, __name__, **room)
        plant(place / "room" / "cache" / NAME, place)
        shutil.move(place / "room" / "cache" / NAME, place / "planted")
        outcomes: dict[str, str] = child("suite.train_beside_planted_code()", place, __name__, **room)
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
            undo.enter_context(patch.object(acceleration, name, 1))
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
