"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.algo.learner import Abandoned, IterationRecord, Learner
from surefoot.train.callbacks import CallbackList, Every
from surefoot.train.progress import Display
from surefoot.train.run import Captured, Run
from surefoot.train.signals import Interrupted, Signals

if TYPE_CHECKING:
    from surefoot.train.ppo import PPO

PATIENCE_SECONDS = 2.0
"""A signal waits so long for the end of an iteration; longer ones are given up and their start is what is saved."""


def train(agent: PPO, target: int, callback: CallbackList, display: Display, run: Run | None) -> None:
    """Iterate until ``target`` env steps are reached, a callback says stop, or (with a run) a signal comes."""
    learner = agent.learner
    rows = learner.config.rollout_rows
    learner.prepare(learner.updates + math.ceil((target - learner.timesteps) / rows))
    callback.on_start(agent)
    try:
        if run is None:
            _iterate(agent, target, callback, display)
        else:
            _iterate_recoverably(agent, target, callback, display, run)
    finally:
        display.close()
        callback.on_end(agent)


def _iterate(agent: PPO, target: int, callback: CallbackList, display: Display) -> None:
    clock = Clock(agent.num_timesteps)
    while agent.num_timesteps < target and iteration(agent, target, callback, clock):
        display.show(agent.num_timesteps, agent.take_logged())


def _iterate_recoverably(agent: PPO, target: int, callback: CallbackList, display: Display, run: Run) -> None:
    """As `_iterate`, with metrics and checkpoints; the first is written before anything is trained."""
    learner, settings = agent.learner, run.config.run
    clock, due = Clock(learner.timesteps), Every(settings.checkpoint_every or 10**18, learner.timesteps)
    last = run.capture(learner, callback.state())
    saved = run.save(last)
    with Signals() as signals:
        goes_on, seconds = True, 0.0
        while goes_on and learner.timesteps < target and signals.received is None:
            began = time.perf_counter()
            if seconds > PATIENCE_SECONDS and last.timesteps != learner.timesteps:
                last = run.capture(learner, callback.state())
            learner.interrupted = _asker(signals, 0.0 if last.timesteps == learner.timesteps else PATIENCE_SECONDS)
            try:
                goes_on = iteration(agent, target, callback, clock)
            except Abandoned:
                raise Interrupted(signals.received or 0, str(_save_if_new(run, last, saved))) from None
            seconds = time.perf_counter() - began
            metrics = agent.take_logged()
            display.show(learner.timesteps, metrics)
            if learner.updates % settings.log_interval == 0:
                run.log(learner.timesteps, metrics)
            if due.due(learner.timesteps):
                last = run.capture(learner, callback.state())
                saved = run.save(last)
        saved = _save_if_new(run, run.capture(learner, callback.state()), saved)
        if signals.received is not None:
            raise Interrupted(signals.received, str(saved))


def _asker(signals: Signals, patience: float) -> Callable[[], bool]:
    return lambda: signals.waited() > patience


def _save_if_new(run: Run, captured: Captured, saved: Path) -> Path:
    return saved if run.checkpoints.path_of(captured.timesteps) == saved else run.save(captured)


def iteration(agent: PPO, target: int, callback: CallbackList, clock: Clock) -> bool:
    """One rollout and its update; False if a callback says stop."""
    learner = agent.learner
    rollout = learner.collect()
    if callback.on_rollout(agent, rollout) is False:
        return False
    record = learner.learn(rollout, planned_updates(learner, target))
    agent.log(iteration_metrics(record) | clock.metrics(learner))
    return callback.on_update(agent, record) is not False


def planned_updates(learner: Learner, target: int) -> int:
    """How many updates the run will have had when it reaches ``target`` env steps; what schedules span (O03).

    Counted in mean transitions per rollout, because rows that only carry a reset are no env steps.
    """
    rollouts = learner.collector.vector_steps // learner.config.ppo.n_steps
    remaining = target - learner.timesteps
    return learner.updates + 1 + max(0, math.ceil(remaining * rollouts / learner.timesteps))


def iteration_metrics(record: IterationRecord) -> dict[str, float]:
    """All log keys of one iteration but the times."""
    return record.episodes | record.update.metrics() | record.measures


class Clock:
    """Speed and elapsed time since training began."""

    def __init__(self, timesteps: int) -> None:
        self._began, self._first = time.perf_counter(), timesteps

    def metrics(self, learner: Learner) -> dict[str, float]:
        """``time/…`` keys."""
        elapsed = time.perf_counter() - self._began
        return {
            "time/fps": (learner.timesteps - self._first) / elapsed,
            "time/time_elapsed": elapsed,
            "time/iterations": float(learner.updates),
            "time/total_timesteps": float(learner.timesteps),
        }
