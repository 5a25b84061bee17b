"""The training process's hold on one worker."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from typing import Any, Literal

from surefoot.errors import EnvError
from surefoot.workers import channel
from surefoot.workers.channel import Channel, pack, unpack
from surefoot.workers.fork_server import ForkServer
from surefoot.workers.process import Job

Kind = Literal["raised", "died", "hung", "interrupted"]
"""Why an env was made anew: it raised; or its worker died, gave no answer in time, or was left in mid-command."""


class Lost(Exception):
    """A worker that will not answer any more."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind


class Worker:
    """A process that hosts some envs. Every command is asked, then answered."""

    def __init__(self, fork_server: ForkServer, memory: int, job: Job, timeout: float) -> None:
        self._fork_server, self._memory, self._timeout = fork_server, memory, timeout
        self._job = pack(tuple(job))
        self.rows = slice(job.first_index, job.first_index + job.n_envs)
        last = self.rows.stop - 1
        self.name = "the worker of " + (f"the envs {self.rows.start} to {last}" if job.n_envs > 1 else f"env {last}")
        self.pid: int | None = None
        self._channel: Channel | None = None
        self._deadline = 0.0
        self._asked = False
        self.set_up = False
        """Whether its envs are started or loaded."""
        self.episode_start = False
        """Whether it was replaced without the caller having heard of it."""
        self.fruitless = 0
        """Replacements since the last good step."""

    @property
    def idle(self) -> bool:
        """Whether it runs and owes no answer."""
        return self._channel is not None and not self._asked

    @property
    def ready(self) -> bool:
        """Whether it can be asked for a step."""
        return self.idle and self.set_up

    def left_alone(self) -> Lost:
        """What there is to say of a worker that is not ready."""
        return Lost("interrupted", f"{self.name} was interrupted")

    def launch(self) -> None:
        """Start the process and have it make its envs; answered by `spaces`."""
        near, far = socket.socketpair()
        self._channel = Channel(near)
        self.set_up = False
        with far:
            self.pid = self._fork_server.fork(far, self._memory)
        self.ask(channel.START, self._job)

    def spaces(self) -> tuple[Any, Any, Any]:
        """Observation and action space of its envs, and the heads that they declare."""
        observation_space, action_space, action_heads = unpack(self.answer())
        return observation_space, action_space, action_heads

    def ask(self, tag: bytes, payload: bytes = b"") -> None:
        """Send a command. That it cannot be sent shows in `answer`."""
        assert self._channel is not None, "launch() comes first"
        self._deadline = time.monotonic() + self._timeout
        self._asked = True
        with suppress(OSError):
            self._channel.send(tag, payload, self._deadline)

    def answer(self) -> bytes:
        """The answer to the last command; raises `Lost`, or the worker's own error as `EnvError`."""
        assert self._channel is not None, "launch() comes first"
        try:
            tag, payload = self._channel.receive(self._deadline)
        except TimeoutError:
            raise Lost("hung", f"{self.name} gave no answer within {self._timeout:g} s") from None
        except OSError:
            raise Lost("died", f"{self.name} died") from None
        self._asked = False
        if tag == channel.FAILED:
            self.set_up = False
            message, trace = json.loads(payload)
            error = EnvError(message)
            error.add_note(f"in {self.name}:\n{trace}")
            raise error
        return payload

    def call(self, tag: bytes, payload: bytes = b"") -> bytes:
        """Ask, and wait for the answer."""
        self.ask(tag, payload)
        return self.answer()

    def end(self) -> str:
        """Kill it, unless it is dead already; how it ended."""
        line, pid = self._channel, self.pid
        self._channel = self.pid = None
        if line is not None:
            line.close()
        return "" if pid is None else self._fork_server.end(pid)

    def say_goodbye(self, deadline: float) -> None:
        """Tell it to close its envs and exit."""
        if self._channel is not None:
            with suppress(OSError):
                self._channel.send(channel.CLOSE, b"", deadline)

    def see_off(self, deadline: float) -> None:
        """Wait until it has hung up."""
        if self._channel is not None:
            with suppress(OSError):
                while True:
                    self._channel.receive(deadline)
            self._channel.close()
