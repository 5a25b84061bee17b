"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from surefoot.algo.learner import Abandoned, IterationRecord, Learner
from surefoot.errors import EnvError, NonFiniteError
from surefoot.train.acceleration import accelerate
from surefoot.train.callbacks import CallbackList, Every
from surefoot.train.progress import Display
from surefoot.train.run import Captured, Run
from surefoot.train.schedule_span import scheduled_updates
from surefoot.train.signals import Interrupted, Signals

if TYPE_CHECKING:
    from surefoot.train.ppo import PPO

PATIENCE_SECONDS = 2.0
"""A signal waits so long for the end of an iteration; longer ones are given up and their start is what is saved."""
LONG_SECONDS = 1.0
CAPTURE_SHARE = 0.1
"""The start of an iteration is kept in memory if the last one was long, or if keeping it costs a small share of it.
An iteration whose start is not kept is never given up."""


def train(agent: PPO, target: int, callback: CallbackList, display: Display, run: Run | None) -> None:
    """Iterate until ``target`` env steps are reached, a callback says stop, or (with a run) a signal comes."""
    learner = agent.learner
    rows = learner.config.rollout_rows
    learner.prepare()
    accelerate(learner, learner.updates + math.ceil((target - learner.timesteps) / rows))
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
    clock, goes_on = Clock(agent.num_timesteps), True
    while goes_on and agent.num_timesteps < target:
        goes_on = iteration(agent, callback, clock).goes_on
        display.show(agent.num_timesteps, agent.take_logged())


def _iterate_recoverably(agent: PPO, target: int, callback: CallbackList, display: Display, run: Run) -> None:
    """As `_iterate`, with metrics and checkpoints; the first is written before anything is trained."""
    learner, settings = agent.learner, run.config.run
    clock, due = Clock(learner.timesteps), Every(settings.checkpoint_every or 10**18, learner.timesteps)
    watch = RunWatch(run, learner, callback)
    with Signals() as signals:
        outcome = Outcome(goes_on=True, learned=False)
        while outcome.goes_on and learner.timesteps < target and signals.received is None:
            with watch.watched(signals):
                outcome = iteration(agent, callback, clock)
            metrics = agent.take_logged()
            display.show(learner.timesteps, metrics)
            run.note(metrics)
            if outcome.learned and learner.updates % settings.log_interval == 0:
                run.write_line(learner.timesteps)
            if due.due(learner.timesteps):
                watch.save()
        watch.save()
        if signals.received is not None:
            raise watch.interruption(signals.received)


class RunWatch:
    """Keeps the state between two iterations, in memory and as checkpoints."""

    def __init__(self, run: Run, learner: Learner, callback: CallbackList) -> None:
        self._run, self._learner, self._callback = run, learner, callback
        self._iteration_seconds = self._capture_seconds = 0.0
        self._kept = self._capture()
        self._saved = run.save(self._kept)

    def save(self) -> None:
        """Write a checkpoint of this moment, unless the last one is of it."""
        if self._kept.timesteps != self._learner.timesteps:
            self._kept = self._capture()
        self._write()

    @contextmanager
    def watched(self, signals: Signals) -> Iterator[None]:
        """Around an iteration: a signal that has waited long gives it up and saves its start, if that is kept."""
        cheap = self._capture_seconds <= CAPTURE_SHARE * self._iteration_seconds
        if self._kept.timesteps != self._learner.timesteps and (cheap or self._iteration_seconds > LONG_SECONDS):
            self._kept = self._capture()
        began, before = time.perf_counter(), self._learner.interrupted
        if self._kept.timesteps == self._learner.timesteps:
            self._learner.interrupted = lambda: signals.waited() > PATIENCE_SECONDS
        try:
            yield
        except Abandoned:
            self._write()
            raise self.interruption(signals.received or 0) from None
        except (EnvError, NonFiniteError) as error:
            raise type(error)(f"{error}\nthe last checkpoint is {self._saved}; {self._run.how_to_go_on}") from error
        except Exception:
            if signals.received is None:
                raise
            # Ctrl-C in a terminal also ends a compiler that runs for this process, whose failure is no news then.
            self._write()
            raise self.interruption(signals.received) from None
        finally:
            self._learner.interrupted = before
        self._iteration_seconds = time.perf_counter() - began

    def interruption(self, number: int) -> Interrupted:
        """What to raise on a signal."""
        return Interrupted(number, str(self._saved), self._kept.timesteps)

    def _capture(self) -> Captured:
        began = time.perf_counter()
        captured = self._run.capture(self._learner, self._callback.state_dict())
        self._capture_seconds = time.perf_counter() - began
        return captured

    def _write(self) -> None:
        if self._run.checkpoints.path_of(self._kept.timesteps) != self._saved:
            self._saved = self._run.save(self._kept)


class Outcome(NamedTuple):
    """How an iteration ended."""

    goes_on: bool
    """No callback says stop."""
    learned: bool
    """There was an update, not only a rollout."""


def iteration(agent: PPO, callback: CallbackList, clock: Clock) -> Outcome:
    """One rollout and its update."""
    learner = agent.learner
    began = learner.timesteps
    rollout = learner.collect()
    if callback.on_rollout(agent, rollout) is False:
        return Outcome(goes_on=False, learned=False)
    record = learner.learn(rollout, scheduled_updates(learner, began))
    agent.log(iteration_metrics(record) | clock.metrics(learner))
    return Outcome(callback.on_update(agent, record) is not False, learned=True)


def iteration_metrics(record: IterationRecord) -> dict[str, float]:
    """All log keys of one iteration but the times."""
    return record.episodes | record.update.metrics() | record.metrics


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
