"""A worker: environments in a process of their own, on orders from the training process."""

from __future__ import annotations

import json
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import gymnasium

from surefoot.actions.masks import MaskForm
from surefoot.errors import FOREIGN, EnvError
from surefoot.spaces import Layout
from surefoot.vector.group import Env, EnvGroup
from surefoot.vector.masks import MaskRows, declared_heads
from surefoot.workers import channel
from surefoot.workers.channel import Channel, pack, unpack
from surefoot.workers.shared_buffer import SharedBuffer
from surefoot.workers.worker_loop import WorkerLoop, make_one


class Job(NamedTuple):
    """What a new worker is told. What the user's modules are needed for comes as bytes, to be unpacked once the import
    path is set."""

    import_path: list[str]
    specs: list[bytes]
    """Gymnasium ids that were registered in the training process."""
    factory: bytes
    first_index: int
    n_envs: int


class Session:
    """A worker's life: it starts, attaches to the buffer, then hosts."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self.commands: dict[bytes, Callable[[bytes], bytes]] = {channel.START: self._start}

    def _start(self, payload: bytes) -> bytes:
        """Make the envs; answers their spaces, and the heads of their actions."""
        job = Job(*unpack(payload))
        sys.path[:] = job.import_path
        for packed in job.specs:
            with suppress(Exception):  # an id that cannot be brought here is missed only if it is used
                spec = unpack(packed).fn
                gymnasium.registry.setdefault(spec.id, spec)
        try:
            factory: Callable[[], Env] = unpack(job.factory).fn
        except FOREIGN as error:
            raise EnvError(
                f"the env cannot be brought into a worker process ({type(error).__name__}: {error}); define it in a "
                "module that can be imported, or set workers = 0"
            ) from error
        envs = [make_one(factory, job.first_index + i) for i in range(job.n_envs)]
        self.commands[channel.ATTACH] = lambda n_envs: self._attach(job, factory, envs, int(n_envs))
        return pack((envs[0].observation_space, envs[0].action_space, declared_heads(envs[0])))

    def _attach(self, job: Job, factory: Callable[[], Env], envs: list[Env], n_envs: int) -> bytes:
        """Take the rows of this worker's envs among all ``n_envs``."""
        layout, form = Layout.of(envs[0].observation_space), MaskForm.of(envs[0].action_space, declared_heads(envs[0]))
        buffer = SharedBuffer.over(self._memory, layout, envs[0].action_space, n_envs, form.conditional_width)
        own = buffer.rows(slice(job.first_index, job.first_index + job.n_envs))
        masks = MaskRows(form, job.n_envs, (own.mask, own.mask_width))
        host = WorkerLoop(EnvGroup(envs, job.first_index, own.observation, masks), factory, job.first_index, own)
        self.commands = {
            channel.STEP: host.step,
            channel.RESET: host.reset,
            channel.REVIVE: host.revive,
            channel.STATE: host.state,
            channel.LOAD: host.load,
            channel.CLOSE: host.close,
        }
        return b""


def serve(line: socket.socket, memory: int) -> None:
    """Do what the training process asks until it says close or hangs up."""
    peer = Channel(line)
    session = Session(memory)
    tag = b""
    with suppress(ConnectionError):
        while tag != channel.CLOSE:
            tag, payload = peer.receive()
            try:
                answer = session.commands[tag](payload)
            except FOREIGN as error:
                message = str(error) if isinstance(error, EnvError) else f"{type(error).__name__}: {error}"
                peer.send(channel.FAILED, json.dumps([message, traceback.format_exc()]).encode())
            else:
                peer.send(channel.DONE, answer)
