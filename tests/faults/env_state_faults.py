"""Runs whose envs cannot be kept, interrupted in the middle of a rollout."""

from __future__ import annotations

import os
import signal
import tempfile
import warnings
from collections import Counter
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from torch import Tensor

from faults.worker_worlds import Faltering
from surefoot import PPO
from surefoot.errors import SurefootWarning
from surefoot.store import CheckpointStore, read_manifest
from surefoot.train import loop
from surefoot.train.signals import Interrupted
from train.agents import ROWS, parameters, small
from train.test_env_states import UNKEPT, Telling, TellingVector

CUT = 2 * ROWS // 2 + 5
"""Steps of each of two envs when the interruption comes: in the middle of the third of four rollouts."""
KEPT = "nothing odd"
HOW = ("to the end", "SIGINT that waits", "SIGINT that gives up", "KeyboardInterrupt")
SAVED = {HOW[0]: 4, HOW[1]: 3, HOW[2]: 2, HOW[3]: 2}
"""Rollouts that are saved."""


class Unkept(NamedTuple):
    """One run."""

    state: str
    """What the env's state holds."""
    since: int
    """Steps of an env after which it does."""
    envs: str
    how: str

    @property
    def rows(self) -> int:
        """Env steps of a rollout; the vector env spends two rows of each env on resets."""
        return ROWS - 4 if self.envs == "vector" else ROWS

    def exact(self, timesteps: int) -> bool:
        """Whether a checkpoint of that many env steps is; before the first step there is nothing to keep."""
        return timesteps == 0 or self.state == KEPT or timesteps // 2 < self.since


class Interruption:
    """Comes once, from within a step."""

    def __init__(self, how: str) -> None:
        self._how, self._due = how, how != HOW[0]

    def __call__(self) -> None:
        due, self._due = self._due, False
        if due and self._how == "KeyboardInterrupt":
            raise KeyboardInterrupt
        if due:
            os.kill(os.getpid(), signal.SIGINT)


class Cut(Telling):
    """Is interrupted."""

    def __init__(self, extra: Any, since: int, interrupt: Interruption) -> None:
        super().__init__(extra, since)
        self._interrupt = interrupt

    def step(self, action: Any) -> Any:
        if self._steps == CUT:
            self._interrupt()
        return super().step(action)


class CutVector(TellingVector):
    """Is interrupted."""

    def __init__(self, extra: Any, interrupt: Interruption) -> None:
        super().__init__(extra)
        self._interrupt, self._steps = interrupt, 0

    def step(self, actions: Any) -> Any:
        self._steps += 1
        if self._steps == CUT:
            self._interrupt()
        return super().step(actions)


FEW = [
    Unkept(KEPT, 0, "single", HOW[2]),
    Unkept("set", 20, "single", HOW[2]),
    Unkept("raising", 0, "single", HOW[3]),
    Unkept("large array", 0, "vector", HOW[1]),
]
"""For a quick look."""


def unkept_cases() -> list[Unkept]:
    """All of them. A worker is not in this process, so that no signal comes from its env."""
    odd = [(state, since) for state in UNKEPT for since in (0, 20)]
    found = [Unkept(*each, "single", how) for each in [(KEPT, 0), *odd] for how in HOW]
    found += [Unkept(state, 0, "vector", how) for state in [KEPT, *UNKEPT] for how in HOW]
    return found + [Unkept(state, 0, "worker", HOW[0]) for state in (KEPT, "set", "raising", "large array")]


def unkept_env_states(chosen: list[Unkept] | None = None) -> dict[str, Any]:
    """Runs that keep checkpoints and are interrupted in the middle of a rollout: none is lost, each checkpoint is exact
    just if the state of the envs could be kept, and goes on."""
    cases = unkept_cases() if chosen is None else chosen
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    problems = []
    try:
        for case in cases:
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore", SurefootWarning)
                try:
                    problem = one_unkept(case, Path(folder, "run"))
                except Exception as error:
                    problem = f"lost: {type(error).__name__}: {error}"
            if problem is not None:
                problems.append(f"{', '.join(map(str, case))}: {problem}")
    finally:
        signal.signal(signal.SIGINT, before)
    return {
        "runs": len(cases),
        "lost": sum(": lost" in problem for problem in problems),
        "wrongly_exact_or_not": sum(": exact" in problem for problem in problems),
        "not_gone_on": sum(": goes" in problem for problem in problems),
        "by": dict(Counter(case.how for case in cases)),
        "problems": problems,
    }


def one_unkept(case: Unkept, run: Path) -> str | None:
    """What is wrong with how a run was kept and went on, or None."""
    patience = 0.0 if case.how == "SIGINT that gives up" else loop.PATIENCE_SECONDS
    keeps_runs = case.how != "KeyboardInterrupt"
    with closing(agent_of(case, keeps_runs)) as agent, patch.object(loop, "PATIENCE_SECONDS", patience):
        try:
            agent.learn(4 * case.rows, run_dir=run if keeps_runs else None)
            ended = "to the end"
        except (Interrupted, KeyboardInterrupt) as stop:
            ended = type(stop).__name__
        if ended not in case.how.replace("SIGINT", "Interrupted"):
            return f"lost: ended by {ended}"
        if not keeps_runs:
            agent.save(run)
            return kept_well(case, run, exact=False, steps=SAVED[case.how] * case.rows)
    store = CheckpointStore(run / "checkpoints")
    expected = [i * case.rows for i in range(SAVED[case.how] + 1)]
    if store.steps() != expected:
        return f"lost: the checkpoints are {store.steps()}"
    found = (kept_well(case, store.path_of(steps), case.exact(steps), steps) for steps in expected)
    return next((problem for problem in found if problem is not None), None)


def kept_well(case: Unkept, path: Path, exact: bool, steps: int) -> str | None:
    """What is wrong with a checkpoint, or None: it says whether it is exact, and goes on to the end of the run."""
    if read_manifest(path).exact != exact:
        return f"exact is {not exact} after {steps} env steps"
    with closing(PPO.load(path, env=env_of(case._replace(how=HOW[0])))) as again:
        if again.num_timesteps != steps:
            return f"lost: {again.num_timesteps} env steps instead of {steps}"
        goal = 4 * case.rows
        again.learn(goal - steps or case.rows)
        if not parameters(again).isfinite().all() or again.num_timesteps < goal:
            return f"goes on to {again.num_timesteps} env steps"
        if exact and steps < goal and not parameters(again).equal(whole_run(case.envs)):
            return f"goes on otherwise from {steps} env steps"
    return None


@cache
def whole_run(envs: str) -> Tensor:
    """The weights of a run that nothing interrupts; what is kept of it does not change it."""
    case = Unkept(KEPT, 0, envs, HOW[0])
    with closing(agent_of(case, keeps_runs=False)) as agent:
        return parameters(agent.learn(4 * case.rows))


def agent_of(case: Unkept, keeps_runs: bool) -> PPO:
    """The agent of a run."""
    options = {"run": {"checkpoint_every": 1, "keep_checkpoints": 10, "sinks": ()}} if keeps_runs else {}
    return small(env_of(case), normalize_observations=True, workers=int(case.envs == "worker"), **options)


def env_of(case: Unkept) -> Any:
    """Its env, or what makes it."""
    extra = None if case.state == KEPT else UNKEPT[case.state][0]
    if case.envs == "worker":
        return partial(Faltering, 0.0, extra)
    if case.envs == "single":
        return partial(Cut, extra, case.since, Interruption(case.how))
    two: Any = extra if extra is None or case.state != "large list" else lambda: [extra(), extra()]
    return CutVector(two, Interruption(case.how))
