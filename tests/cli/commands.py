"""Run the command line, in this process or as its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from surefoot.cli.main import main

SURELY_QUICK = (
    *("--n-envs", "2", "--ppo.n-steps", "16", "--ppo.batch-size", "16", "--ppo.n-epochs", "1"),
    *("--policy.hidden-sizes", "8", "--compile", "false", "--quiet"),
)
"""Options of a training with rollouts of 32 env steps that takes some milliseconds."""
ROWS = 32


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str


class Surefoot:
    """``surefoot …`` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str | Path) -> Ended:
        self._capsys.readouterr()
        code = 0
        try:
            main([str(word) for word in words])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        printed = self._capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    def train(self, run: Path, *words: str, steps: int = 3 * ROWS) -> Ended:
        """A quick training on CartPole."""
        return self("train", "CartPole-v1", "--run-dir", run, "--total-timesteps", str(steps), *SURELY_QUICK, *words)


def script() -> str:
    """The installed console script."""
    return str(Path(sys.executable).parent / "surefoot")


def environment() -> dict[str, str]:
    """One thread, no terminal, lines that are not wrapped."""
    return os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def process(*words: str | Path, command: tuple[str, ...] = (), cwd: Path | None = None) -> Ended:
    """``surefoot …`` as its own process."""
    ended = subprocess.run(
        [*(command or (script(),)), *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
        cwd=cwd,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)
