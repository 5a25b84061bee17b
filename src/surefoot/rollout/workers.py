"""Environments spread over worker processes: steps in shared memory, commands over sockets.

What comes out equals an `EnvGroup` in this process, bit for bit. Beyond that, workers survive what would end a group:
an env that raises is made anew, and so are all envs of a worker that dies or hangs. Their open episodes are lost, which
`Step.dropped` says, and counted in `WorkerEnvs.restarts`.
"""

from __future__ import annotations

import json
import os
import sys
import time
import weakref
import zlib
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector.utils import CloudpickleWrapper

from surefoot.errors import ConfigError, EnvError
from surefoot.rollout import channel
from surefoot.rollout.channel import pack, unpack
from surefoot.rollout.envs import Envs, Step
from surefoot.rollout.group import NO_INFO, Env
from surefoot.rollout.keeper import GRACE_SECONDS, Keeper
from surefoot.rollout.shared import Board, nameless_memory
from surefoot.rollout.worker import Kind, Lost, Worker
from surefoot.rollout.worker_process import Job
from surefoot.spaces import Array, Layout

MAX_FRUITLESS_REPLACEMENTS = 3
"""How often in a row a worker is replaced without one good step."""
FAULTS_KEPT = 100


class Fault(NamedTuple):
    """One restart of one env."""

    env: int
    kind: Kind
    message: str


class WorkerEnvs(Envs):
    """``n_envs`` environments made by ``factory`` in ``workers`` processes."""

    def __init__(
        self,
        factory: Callable[[], Env],
        n_envs: int,
        workers: int,
        worker_timeout: float = 60.0,
        max_restarts: int = 1000,
    ) -> None:
        """A worker that gives no answer within ``worker_timeout`` seconds counts as hung and is replaced; more than
        ``max_restarts`` of one env are an error."""
        self.n_envs = n_envs
        self.restarts: list[Counter[Kind]] = [Counter() for _ in range(n_envs)]
        self.faults: deque[Fault] = deque(maxlen=FAULTS_KEPT)
        self._max_restarts = max_restarts
        self._seed = 0
        self._keeper = Keeper(worker_timeout)
        memory = nameless_memory()
        jobs = _jobs(factory, n_envs, workers)
        self._workers = [Worker(self._keeper, memory, job, worker_timeout) for job in jobs]
        self._shut_down = weakref.finalize(self, _shut_down, os.getpid(), self._workers, self._keeper, memory)
        try:
            self.observation_space, self.action_space = self._start()
            self.layout = Layout.of(self.observation_space)
            self._board = Board.over(memory, self.layout, self.action_space, n_envs)
            for worker in self._workers:
                worker.call(channel.ATTACH, str(n_envs).encode())
        except Lost as lost:
            self.close()
            raise EnvError(f"{lost} while it made its envs; try workers = 0, or raise worker_timeout") from None
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int | None]:
        """Process id of each worker."""
        return [worker.pid for worker in self._workers]

    @property
    def n_restarts(self) -> int:
        """Restarts of all envs, for all reasons."""
        return sum(counter.total() for counter in self.restarts)

    def reset(self, seed: int) -> Mapping[str, Array]:
        self._seed = seed
        self._set_up(channel.RESET, [self._origin(worker) for worker in self._workers])
        return self._observation()

    def step(self, actions: Array) -> Step:
        self._replace_unready()
        np.copyto(self._board.action, actions, casting="same_kind")
        for worker in self._workers:
            if not worker.fresh:
                worker.ask(channel.STEP)
        infos: list[Mapping[str, Any]] = [NO_INFO] * self.n_envs
        for worker in self._workers:
            if worker.fresh:
                self._drop(worker)
                continue
            try:
                report = worker.answer()
            except Lost as lost:
                self._replace(worker, lost)
                self._drop(worker)
                continue
            worker.fruitless = 0
            for env, info in self._read(report).items():
                infos[env] = info
        board = self._board
        terminated, truncated, dropped = board.terminated.copy(), board.truncated.copy(), board.dropped.copy()
        final = {
            int(i): {name: array[i].copy() for name, array in board.final.items()}
            for i in np.flatnonzero(terminated | truncated)
        }
        live = np.ones(self.n_envs, np.bool_)
        return Step(
            self._observation(), board.reward.copy(), terminated, truncated, ~dropped, live, final, infos, dropped
        )

    def state(self) -> list[Any] | None:
        """None also if a worker was lost: its envs are no longer where the caller's observations say."""
        self._replace_unready()
        for worker in self._workers:
            worker.ask(channel.STATE)
        states: list[Any] = []
        for worker in self._workers:
            try:
                states.append(json.loads(worker.answer()))
            except Lost as lost:
                self._replace(worker, lost)
                worker.fresh = True
        if None in states or any(worker.fresh for worker in self._workers):
            return None
        return [state for part in states for state in part]

    def load_state(self, state: list[Any]) -> None:
        self._seed = zlib.crc32(json.dumps(state).encode())
        parts = [[*self._origin(worker), state[worker.rows]] for worker in self._workers]
        self._set_up(channel.LOAD, parts)

    def close(self) -> None:
        self._shut_down()

    def _start(self) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
        """Launch all workers at once; the spaces of their envs."""
        for worker in self._workers:
            worker.launch()
        spaces = [worker.spaces() for worker in self._workers]
        for worker, other in zip(self._workers, spaces, strict=True):
            if other != spaces[0]:
                raise EnvError(
                    f"env {worker.rows.start} has other spaces than env 0; all envs of a run must be alike"
                )
        return spaces[0]

    def _set_up(self, tag: bytes, payloads: Sequence[Any]) -> None:
        """Have every worker start or load its envs; one that is lost meanwhile is replaced and asked again."""
        self._check_open()
        for worker in self._workers:
            worker.fresh = False
        for worker, payload in zip(self._workers, payloads, strict=True):
            ...
