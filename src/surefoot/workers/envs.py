"""Environments spread over worker processes: steps in shared memory, commands over sockets.

What comes out equals an `EnvGroup` in this process, bit for bit. Beyond that, workers survive what would end a group:
an env that raises is made anew, and so are all envs of a worker that dies or hangs. Their open episodes are lost, which
`Step.dropped` says, and counted in `WorkerEnvs.restarts`.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
import weakref
import zlib
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector.utils import CloudpickleWrapper

from surefoot.actions.heads import HeadSpec
from surefoot.errors import ConfigError, EnvError, EnvStateError
from surefoot.spaces import Array, Layout
from surefoot.vector.env_state import require_small
from surefoot.vector.group import Env
from surefoot.vector.infos import NO_INFO, RowInfos
from surefoot.vector.interface import Envs, Step, Successors
from surefoot.vector.masks import MaskRows
from surefoot.workers import channel
from surefoot.workers.channel import pack, unpack
from surefoot.workers.fork_server import GRACE_SECONDS, ForkServer
from surefoot.workers.process import Job
from surefoot.workers.shared_buffer import SharedBuffer, nameless_memory
from surefoot.workers.worker import Kind, Lost, Worker

MAX_FRUITLESS_REPLACEMENTS = 3
"""How often in a row a worker is replaced without one good step."""
FAULTS_KEPT = 100
Space = gymnasium.Space[Any]


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
        self._begun = False
        jobs, fork_server, memory = _jobs(factory, n_envs, workers), ForkServer(), nameless_memory()
        self._workers = [Worker(fork_server, memory, job, worker_timeout) for job in jobs]
        self._shut_down = weakref.finalize(self, _shut_down, os.getpid(), self._workers, fork_server, memory)
        try:
            self.observation_space, self.action_space, self.action_heads = self._start()
            self.layout = Layout.of(self.observation_space)
            self._buffer = SharedBuffer.over(
                memory, self.layout, self.action_space, n_envs, self.mask_form.conditional_width
            )
            self._masks = MaskRows(self.mask_form, n_envs, (self._buffer.mask, self._buffer.mask_width))
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
        self._set_up(channel.RESET, [[] for _ in self._workers])
        return self._observation()

    def step(self, actions: Any) -> Step:
        self._replace_unready()
        buffer = self._buffer
        buffer.write_actions(actions)
        for worker in self._workers:
            if not worker.episode_start:
                worker.ask(channel.STEP)
        infos: list[Mapping[str, Any]] = [NO_INFO] * self.n_envs
        for worker in self._workers:
            if not worker.episode_start:
                self._finish_step(worker, infos)
            if worker.episode_start:
                worker.episode_start = False
                buffer.reward[worker.rows] = 0
                buffer.terminated[worker.rows] = buffer.truncated[worker.rows] = False
                buffer.dropped[worker.rows] = True
        terminated, truncated, dropped = buffer.terminated.copy(), buffer.truncated.copy(), buffer.dropped.copy()
        ended = np.flatnonzero(terminated | truncated)
        final = Successors(ended, {name: array[ended] for name, array in buffer.final.items()})
        active, reward, rows = np.ones(self.n_envs, np.bool_), buffer.reward.copy(), RowInfos(infos)
        return Step(self._observation(), reward, terminated, truncated, ~dropped, active, final, rows, dropped)

    @property
    def gives_masks(self) -> bool:
        return self._masks.any

    def action_masks(self) -> Array | None:
        return self._masks.all()

    def state_dict(self) -> list[Any] | None:
        """Each env's state with what decides its restarts; it fits a group too, and any number of workers.

        None also if a worker was lost: its envs are no longer where the caller's observations say.
        """
        self._replace_unready()
        for worker in self._workers:
            worker.ask(channel.STATE)
        states: list[Any] = []
        for worker in self._workers:
            try:
                states.append(json.loads(worker.answer()))
            except Lost as lost:
                self._replace(worker, lost, channel.REVIVE, [])
                worker.episode_start = True
        if any(worker.episode_start for worker in self._workers):
            return None
        reason = next((part for part in states if isinstance(part, str)), None)
        if reason is not None:
            raise EnvStateError(reason)
        if None in states:
            return None
        found = [
            [*entry, {"seed": self._seed, "fruitless": fruitless, "restarts": dict(counter)}]
            for (*entry, fruitless), counter in zip(itertools.chain(*states), self.restarts, strict=True)
        ]
        require_small(found)
        return found

    def load_state_dict(self, state: list[Any]) -> None:
        kept: list[dict[str, Any]] = [
            entry[3] if len(entry) > 3 else {"fruitless": 0, "restarts": {}} for entry in state
        ]
        # A group has no seed for restarts. It must be decided by the state alone, and differ between runs.
        self._seed = kept[0].get("seed", zlib.crc32(json.dumps(state).encode()))
        self.restarts = [Counter(x["restarts"]) for x in kept]
        entries = [[*entry[:3], x["fruitless"]] for entry, x in zip(state, kept, strict=True)]
        self._set_up(channel.LOAD, [[entries[worker.rows]] for worker in self._workers])

    def close(self) -> None:
        self._shut_down()

    def _start(self) -> tuple[Space, Space, tuple[HeadSpec, ...] | None]:
        """Launch all workers at once; the spaces of their envs, and the heads that they declare."""
        for worker in self._workers:
            worker.launch()
        spaces = [worker.spaces() for worker in self._workers]
        for worker, other in zip(self._workers, spaces, strict=True):
            if other != spaces[0]:
                raise EnvError(f"env {worker.rows.start} has other spaces than env 0; all envs of a run must be alike")
        return spaces[0]

    def _set_up(self, tag: bytes, extras: Sequence[list[Any]]) -> None:
        """Have every worker start or load its envs; one that is lost meanwhile is replaced and asked again."""
        self._check_open()
        asked = []
        for worker, extra in zip(self._workers, extras, strict=True):
            worker.episode_start = False
            if worker.idle:
                worker.ask(tag, self._origin(worker, extra))
                asked.append((worker, extra))
            else:
                self._replace(worker, worker.left_alone(), tag, extra)
        for worker, extra in asked:
            try:
                self._read(worker.answer())
                worker.set_up = True
            except Lost as lost:
                self._replace(worker, lost, tag, extra)
        self._begun = True

    def _finish_step(self, worker: Worker, infos: list[Mapping[str, Any]]) -> None:
        try:
            report = worker.answer()
        except Lost as lost:
            self._replace(worker, lost, channel.REVIVE, [])
            worker.episode_start = True
            return
        worker.fruitless = 0
        for env, info in self._read(report).items():
            infos[env] = info

    def _replace_unready(self) -> None:
        """Replace workers that an exception, such as Ctrl-C, left in mid-command."""
        self._check_open()
        if not self._begun:
            raise EnvError("reset() or load_state_dict() comes before the first step")
        for worker in self._workers:
            if not worker.ready:
                self._replace(worker, worker.left_alone(), channel.REVIVE, [])
                worker.episode_start = True

    def _replace(self, worker: Worker, lost: Lost, tag: bytes, extra: list[Any]) -> None:
        """Put a new process in the place of a lost one and have it set up its envs."""
        while True:
            how = worker.end()
            message = f"{lost} {how}" if lost.kind == "died" else str(lost)
            worker.fruitless += 1
            if worker.fruitless > MAX_FRUITLESS_REPLACEMENTS:
                raise EnvError(
                    f"{message}; replaced {MAX_FRUITLESS_REPLACEMENTS} times in a row, it did not make one good step. "
                    "Correct the env, or set workers = 0 to see what it does"
                )
            for env in range(worker.rows.start, worker.rows.stop):
                self._count(env, lost.kind, message)
            try:
                worker.launch()
                worker.spaces()
                worker.call(channel.ATTACH, str(self.n_envs).encode())
                self._read(worker.call(tag, self._origin(worker, extra)))
                worker.set_up = True
                return
            except Lost as again:
                lost = again

    def _origin(self, worker: Worker, extra: list[Any]) -> bytes:
        """What decides the seeds of a worker's envs, and what else it needs to set them up."""
        restarts = [counter.total() for counter in self.restarts[worker.rows]]
        return json.dumps([self._seed, restarts, *extra]).encode()

    def _read(self, report: bytes) -> dict[int, Mapping[str, Any]]:
        """Infos by env; faults are counted."""
        if not report:
            return {}
        infos: dict[int, Mapping[str, Any]]
        infos, faults = unpack(report)
        for env, message in faults:
            self._count(env, "raised", message)
        return infos

    def _count(self, env: int, kind: Kind, message: str) -> None:
        counter = self.restarts[env]
        counter[kind] += 1
        self.faults.append(Fault(env, kind, message))
        if counter.total() > self._max_restarts:
            kinds = ", ".join(f"{kind} {count}" for kind, count in counter.items())
            raise EnvError(
                f"env {env} was made anew more than {self._max_restarts} times ({kinds}); the last reason: {message}"
            )

    def _observation(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self._buffer.observation.items()}

    def _check_open(self) -> None:
        if not self._shut_down.alive:
            raise EnvError("these envs are closed")


def _jobs(factory: Callable[[], Env], n_envs: int, workers: int) -> list[Job]:
    """Envs in equal, contiguous shares."""
    if not 1 <= workers <= n_envs:
        raise ConfigError(f"workers = {workers} must be between 1 and n_envs = {n_envs}")
    try:
        packed = pack(CloudpickleWrapper(factory))
    except Exception as error:
        raise ConfigError(
            f"the env cannot be sent to a worker process ({type(error).__name__}: {error}); give an id or a callable "
            "that holds plain values only, or set workers = 0"
        ) from error
    bounds = [i * n_envs // workers for i in range(workers + 1)]
    path = [str(entry) for entry in sys.path]
    specs = _registered_here()
    return [Job(path, specs, packed, a, b - a) for a, b in itertools.pairwise(bounds)]


def _registered_here() -> list[bytes]:
    """Gymnasium ids that a fresh process would not know."""
    found = []
    for spec in gymnasium.registry.values():
        if not (isinstance(spec.entry_point, str) and spec.entry_point.startswith("gymnasium.")):
            with suppress(Exception):  # an id that cannot be sent is missed only if it is used
                found.append(pack(CloudpickleWrapper(spec)))  # type: ignore[arg-type]  # it takes any object
    return found


def _shut_down(owner: int, workers: Sequence[Worker], fork_server: ForkServer, memory: int) -> None:
    """Let the workers close their envs, for a while; then end all processes."""
    if os.getpid() != owner:
        return  # a fork of the training process; the workers are not its own
    deadline = time.monotonic() + GRACE_SECONDS
    try:
        for worker in workers:
            worker.say_goodbye(deadline)
        for worker in workers:
            worker.see_off(deadline)
    finally:
        fork_server.close()
        os.close(memory)
