"""The room `fast` can be taken away: a representative set of tests passes without it, only slower."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import surefoot

TESTS = Path(__file__).resolve().parent
CHOSEN = (
    "actions/test_masked_actions.py",
    "algo/test_memory.py",
    "algo/test_update.py",
    "contract/test_together.py",
    "evaluate/test_episodes.py",
    "policy/test_own_encoder.py",
    "rollout/test_collector.py",
    "train/test_old_checkpoints.py",
    "train/test_predict.py",
)


ROOM = "surefoot.fast"
DOOR = "train/acceleration.py"
"""The one file of the package that may import the room."""


def names_the_room(path: Path) -> list[int]:
    """Lines that import it, or name something in it as a text, as patches do."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if node.value.startswith(f"{ROOM}.") else []
        else:
            continue
        if any(name == ROOM or name.startswith(f"{ROOM}.") for name in names):
            found.append(node.lineno)
    return found


def test_only_the_room_its_door_and_its_tests_name_it() -> None:
    package = Path(surefoot.__file__).parent
    within = {TESTS / "fast": TESTS, package / "fast": package}
    named = {
        path.relative_to(root).as_posix(): lines
        for room, root in within.items()
        for path in sorted(root.rglob("*.py"))
        if not path.is_relative_to(room) and (lines := names_the_room(path))
    }
    assert named.pop(DOOR, [])
    assert named == {}
    assert names_the_room(TESTS / "fast" / "test_compile.py")


@pytest.mark.slow
def test_the_library_works_without_its_fast_room(tmp_path: Path) -> None:
    package = tmp_path / "surefoot"
    shutil.copytree(Path(surefoot.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "fast"))
    assert not (package / "fast").exists()
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-m", "not slow", *(TESTS / c for c in CHOSEN)],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-2000:]
    asked = [sys.executable, "-c", "import surefoot; print(surefoot.__file__)"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    found = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert str(package) in found.stdout


def test_asking_to_compile_without_the_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from surefoot import PPO
    from surefoot.errors import ConfigError

    monkeypatch.setattr("surefoot.train.acceleration.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"no surefoot\.fast"):
        PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=16, compile=True).learn(32)
    assert PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=16).learn(32).num_timesteps == 32
