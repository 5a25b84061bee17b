"""The training loop."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from surefoot.algo.learner import IterationRecord, Learner
from surefoot.train.callbacks import CallbackList, Every
from surefoot.train.progress import Display
from surefoot.train.run import Run
from surefoot.train.signals import Interrupted, Signals

if TYPE_CHECKING:
    from surefoot.train.ppo import PPO


def train(agent: PPO, target: int, callback: CallbackList, display: Display, run: Run | None) -> None:
    """Iterate until ``target`` env steps are reached, a callback says stop, or (with a run) a signal comes."""
    learner = agent.learner
    clock = Clock(learner.timesteps)
    due = Every(run.config.run.checkpoint_every or 10**18) if run is not None else None
    rows = learner.config.rollout_rows
    learner.prepare(learner.updates + math.ceil((target - learner.timesteps) / rows))
    callback.on_start(agent)
    with Signals() if run is not None else _NoSignals() as signals:
        if run is not None and due is not None:
            due.last = learner.timesteps
            run.save(learner, callback.state())
        try:
            while learner.timesteps < target and signals.received is None:
                rollout = learner.collect()
                if callback.on_rollout(agent, rollout) is False:
                    break
                record = learner.learn(rollout, planned_updates(learner, target))
                agent.log(iteration_metrics(record) | clock.metrics(learner))
                goes_on = callback.on_update(agent, record) is not False
                metrics = agent.take_logged()
                display.show(learner.timesteps, metrics)
                if run is not None and due is not None:
                    if learner.updates % run.config.run.log_interval == 0:
                        run.log(learner.timesteps, metrics)
                    if due.due(learner.timesteps):
                        run.save(learner, callback.state())
                if not goes_on:
                    break
        finally:
            display.close()
            callback.on_end(agent)
        if run is not None:
            where = run.save(learner, callback.state())
            if signals.received is not None:
                raise Interrupted(signals.received, str(where))


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


class _NoSignals:
    """Without a run directory there is nowhere to save to, so signals act as always."""

    received: int | None = None

    def __enter__(self) -> _NoSignals:
        return self

    def __exit__(self, *error: object) -> None:
        pass
