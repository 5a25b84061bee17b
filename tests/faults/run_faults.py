"""Faults around a run: lost output, a full disk while logging, two processes at once, an env that exits.

`cd tests && python -m faults.run_faults` prints the figures.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from surefoot import PPO
from surefoot.cli.main import main
from surefoot.errors import EnvError, RunError, SurefootWarning
from surefoot.store import CheckpointStore
from surefoot.train.checkpoint import from_snapshot
from surefoot.train.run import Run, latest_checkpoint
from surefoot.train.sinks import read_metrics

SMALL: dict[str, Any] = {
    "n_envs": 2,
    "n_steps": 16,
    "batch_size": 16,
    "n_epochs": 1,
    "compile": False,
    "policy": {"hidden_sizes": (8,)},
}
ROWS = 32
OPTIONS = (
    *("--n-envs", "2", "--ppo.n-steps", "16", "--ppo.batch-size", "16", "--ppo.n-epochs", "1", "--compile", "false"),
    *("--policy.hidden-sizes", "8"),
)
LOST = ("reader gone", "full", "closed")
"""What may have become of standard output or standard error."""


def surefoot(*words: str | Path) -> list[str]:
    """The command line, as a process starts it."""
    return [sys.executable, "-m", "surefoot", *map(str, words)]


def lost_output(cases: list[tuple[str, str]] | None = None) -> dict[str, Any]:
    """Train with standard output and error lost in several ways: it must end as always, with everything saved."""
    chosen = list(product(LOST, LOST)) if cases is None else cases
    good, problems = 0, []
    for out, err in chosen:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as undo:
            run = Path(folder, "run")
            words = ("train", "CartPole-v1", "--run-dir", run, "--total-timesteps", 20 * ROWS, *OPTIONS)
            streams = {"stdout": lost_stream(out, undo), "stderr": lost_stream(err, undo)}
            close = [number for number, how in ((1, out), (2, err)) if how == "closed"]
            command = surefoot(*map(str, words))
            ended = subprocess.run(closing_first(command, close), check=False, timeout=120, **streams)
            steps = CheckpointStore(run / "checkpoints").steps()
            if ended.returncode == 0 and steps[-1:] == [20 * ROWS] and len(read_metrics(run)) == 20:
                good += 1
            else:
                problems.append(f"stdout {out}, stderr {err}: exit {ended.returncode}, checkpoints {steps}")
    return {"cases": len(chosen), "good": good, "problems": problems}


def lost_stream(how: str, undo: ExitStack) -> Any:
    """Something to give to a process as its output."""
    if how == "full":
        return undo.enter_context(open("/dev/full", "w", encoding="utf-8"))
    if how == "reader gone":
        reader, writer = os.pipe()
        os.close(reader)
        undo.callback(os.close, writer)
        return writer
    return None


def closing_first(command: list[str], numbers: list[int]) -> list[str]:
    """The command, started by a shell that closes descriptors before."""
    closed = " ".join(f"{number}>&-" for number in numbers)
    return ["sh", "-c", f'exec "$@" {closed}', "sh", *command] if numbers else command


@contextmanager
def file_limit(n_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond ``n_bytes``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full_disk_while_logging(cases: int = 40, seed: int = 0) -> dict[str, Any]:
    """The files of metrics cannot grow from a random byte on, for a while or for good: the run ends well, each file is
    told of once, no line is torn, and the lines are all there once there is room, be it after a resume."""
    rng = np.random.default_rng(seed)
    good, problems = 0, []
    for i in range(cases):
        for_good = i % 2 == 1
        with tempfile.TemporaryDirectory() as folder:
            problem = one_full_disk(Path(folder, "run"), int(rng.integers(1, 4000)), for_good)
        good += problem is None
        if problem is not None:
            problems.append(f"case {i}: {problem}")
    return {"cases": cases, "good": good, "problems": problems}


def one_full_disk(run: Path, room: int, for_good: bool) -> str | None:
    """After 24 of 32 updates the metrics may grow by ``room`` bytes more, until the 28th or ``for_good``; what is wrong
    with what follows, or None."""
    limits = ExitStack()
    goal = 32 * ROWS

    def watch(agent: PPO, record: Any) -> None:
        updates = agent.learner.updates
        if updates == 24:
            limits.enter_context(file_limit((run / "metrics.jsonl").stat().st_size + room))
        elif updates == 28 and not for_good:
            limits.close()

    with warnings.catch_warnings(record=True) as told, closing(PPO("CartPole-v1", **SMALL)) as agent:
        warnings.simplefilter("always", SurefootWarning)
        try:
            agent.learn(goal, callback=watch, run_dir=run)
        finally:
            limits.close()
    said = [str(warning.message) for warning in told if "cannot be written" in str(warning.message)]
    expected = list(range(ROWS, goal + 1, ROWS))
    if sorted(re.sub(r".*/(metrics|events).*", r"\1", text) for text in said) not in (
        ["metrics"],
        ["events", "metrics"],
    ):
        return f"told {said}"
    if CheckpointStore(run / "checkpoints").steps()[-1] != goal:
        return "not saved"
    if not (run / "metrics.jsonl").read_bytes().endswith(b"}\n"):
        return "a torn line"
    if for_good:
        _, config, _, extra = from_snapshot(*latest_checkpoint(run)[:2])
        Run.reopen(run, config, goal, extra).close()
    found = [line["step"] for line in read_metrics(run)]
    return None if found == expected else f"the lines are {found}"


def two_at_once(attempts: int = 20) -> dict[str, Any]:
    """Others try to train and to resume a run while a process writes it; then it is killed, and the run is resumed."""
    refused, problems = 0, []
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        first = subprocess.Popen(
            surefoot("train", "CartPole-v1", "--run-dir", run, "--total-timesteps", "100000000", "--quiet", *OPTIONS),
            stderr=subprocess.DEVNULL,
        )
        try:
            end = time.monotonic() + 60
            while not any(run.glob("checkpoints/[0-9]*")) and time.monotonic() < end:
                time.sleep(0.02)
            for i in range(attempts):
                words = ["resume", run] if i % 2 else ["train", "CartPole-v1", "--run-dir", run, *OPTIONS]
                said = refusal([*map(str, words), "--quiet"])
                if f"process {first.pid} is writing the run" in said:
                    refused += 1
                else:
                    problems.append(f"{words[0]}: {said!r}")
        finally:
            first.kill()
            first.wait()
        goal = (latest_checkpoint(run).manifest.step or 0) + ROWS
        said = refusal(["resume", str(run), "--total-timesteps", str(goal), "--quiet"])
        if said or CheckpointStore(run / "checkpoints").steps()[-1] != goal:
            problems.append(f"after the kill: {said!r}")
    return {"attempts": attempts, "refused": refused, "problems": problems}


def refusal(words: list[str]) -> str:
    """What a command that was refused says; nothing if it was not."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    said = io.StringIO()
    try:
        with redirect_stderr(said), redirect_stdout(io.StringIO()):
            main(words)
    except SystemExit as stop:
        return said.getvalue() if stop.code == 2 else f"exit {stop.code}: {said.getvalue()}"
    return ""


class Exits(gym.Env[Any, Any]):
    """Ends the process it lives in, at a place and with a code of choice."""

    def __init__(self, place: str, code: Any) -> None:
        self.observation_space, self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(2)
        self._place, self._code, self._steps = place, code, 0
        self._at("make")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._at("reset")
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if self._steps == 5:
            self._at("step")
        return np.zeros(2, np.float32), 0.0, False, False, {}

    def action_masks(self) -> Any:
        self._at("mask")
        return np.ones(2, np.bool_)

    def _at(self, place: str) -> None:
        if place == self._place:
            sys.exit(self._code)


EXITS = tuple(product(("make", "reset", "step", "mask"), (0, None, "a message")))


def system_exit(workers: tuple[int, ...] = (0, 2)) -> dict[str, Any]:
    """``sys.exit`` in an env, at every place: an error or a restart that names it, and the training process lives."""
    named, problems = 0, []
    for (place, code), n in product(EXITS, workers):
        said = ""
        try:
            with closing(PPO(partial(Exits, place, code), workers=n, **SMALL)) as agent:
                agent.learn(2 * ROWS)
                said = "".join(fault.message for fault in getattr(agent.envs, "faults", ()))
        except EnvError as error:
            said = str(error)
        except BaseException as error:
            said = f"{type(error).__name__} ended the process"
        if re.search(f"(?s){'Exits' if place == 'make' else 'env 0 .Exits.'}.*SystemExit: {code or ''}", said):
            named += 1
        else:
            problems.append(f"{place} {code!r}, workers {n}: {said!r}")
    return {"cases": len(EXITS) * len(workers), "named": named, "problems": problems}


def hangup() -> dict[str, Any]:
    """SIGINT and SIGHUP that the parent ignores stay ignored; SIGHUP that is not saves, with exit code 129."""
    problems = []
    for ignored in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder, "run")
            words = ("train", "CartPole-v1", "--run-dir", run, "--total-timesteps", "100000000", "--quiet", *OPTIONS)
            start = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"] if ignored else []
            process = subprocess.Popen([*start, *surefoot(*words)], stderr=subprocess.DEVNULL)
            try:
                end = time.monotonic() + 60
                while not read_metrics(run):
                    if time.monotonic() > end:
                        raise RunError("training did not start")
                    time.sleep(0.02)
                for number in (signal.SIGINT, signal.SIGHUP) if ignored else ():
                    process.send_signal(number)
                    time.sleep(0.3)
                process.send_signal(signal.SIGTERM if ignored else signal.SIGHUP)
                code = process.wait(30)
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                process.wait()
            expected = 128 + (signal.SIGTERM if ignored else signal.SIGHUP)
            saved = latest_checkpoint(run).manifest.step
            if code != expected or saved != read_metrics(run)[-1]["step"]:
                problems.append(f"ignored {ignored}: exit {code}, saved {saved}")
    return {"cases": 2, "good": 2 - len(problems), "problems": problems}


if __name__ == "__main__":
    for suite in (lost_output, hangup, full_disk_while_logging, two_at_once, system_exit):
        began = time.perf_counter()
        print(json.dumps({suite.__name__: {**suite(), "seconds": round(time.perf_counter() - began, 1)}}), flush=True)
