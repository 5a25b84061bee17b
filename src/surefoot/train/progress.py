"""Live progress: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from surefoot.output import forgiving, say

PLAIN_INTERVAL_SECONDS = 5.0


class Display(Protocol):
    """Shows how far a run is."""

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Progress at ``step`` env steps."""

    def close(self) -> None:
        """Stop showing."""


class Silent:
    """Shows nothing."""

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        pass

    def close(self) -> None:
        pass


class Bar:
    """A rich progress bar with return, KL, entropy, speed and time left."""

    def __init__(self, start: int, total: int, console: Console) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._progress.add_task("training", total=total, completed=start, numbers="")
        self._progress.start()

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        self._progress.update(self._task, completed=step, numbers=numbers(metrics))

    def close(self) -> None:
        self._progress.stop()


class Lines:
    """One line every few seconds, for logs and pipes."""

    def __init__(self, start: int, total: int) -> None:
        self._total = total
        self._began, self._start = time.perf_counter(), start
        self._last = -PLAIN_INTERVAL_SECONDS

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        elapsed = time.perf_counter() - self._began
        if elapsed - self._last < PLAIN_INTERVAL_SECONDS and step < self._total:
            return
        self._last = elapsed
        left = elapsed / max(step - self._start, 1) * max(self._total - step, 0)
        say(f"step {step}/{self._total}  {numbers(metrics)}  eta {left:.0f}s")

    def close(self) -> None:
        pass


def numbers(metrics: Mapping[str, float]) -> str:
    """The numbers that one looks at first."""
    shown = {
        "return": ("rollout/ep_rew_mean", 1),
        "kl": ("train/approx_kl", 4),
        "entropy": ("train/entropy", 2),
        "fps": ("time/fps", 0),
    }
    return "  ".join(f"{name} {_short(metrics[key], n)}" for name, (key, n) in shown.items() if key in metrics)


def _short(number: float, n_decimals: int) -> str:
    """With so many decimals, or with two digits that tell where these would be too few."""
    rounds_away = 0.0 < abs(number) < 10.0 ** (1 - n_decimals)
    return f"{number:.2g}" if rounds_away else f"{number:.{n_decimals}f}"


def open_display(start: int, total: int) -> Display:
    """A bar if standard error is a terminal, else plain lines."""
    console = Console(file=forgiving(sys.stderr))
    return Bar(start, total, console) if console.is_terminal else Lines(start, total)
