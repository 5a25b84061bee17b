"""The training process's hold on its fork server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

from surefoot.errors import ConfigError, EnvError
from surefoot.workers.fork_server_process import END, FORK, ORDER

BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from surefoot.workers.fork_server_process import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
GRACE_SECONDS = 2.0
"""How long a process may take to end before it is killed."""
FORK_SECONDS, END_SECONDS = 60.0, 5.0
"""How long an order may take; the first fork includes the start of the fork server."""


class ForkServer:
    """Starts workers and ends them; started on first use, and again if it was killed."""

    def __init__(self) -> None:
        if os.name != "posix":
            raise ConfigError(f"worker processes need Linux or macOS, this is {sys.platform}; set workers = 0")
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, while it runs."""
        return None if self._process is None else self._process.pid

    def fork(self, worker_end: socket.socket, memory: int) -> int:
        """A new worker at the other end of a socket, with the memory; its process id."""
        for _ in range(2):  # a fork server that was killed is found out only by use
            answer = self._order(FORK, 0, [worker_end.fileno(), memory], FORK_SECONDS)
            if answer is not None:
                return answer
        raise EnvError(
            f"the process that starts workers did not answer within {FORK_SECONDS:g} s, twice; is the machine out of "
            "memory or processes? Set workers = 0 to do without"
        )

    def end(self, pid: int) -> str:
        """Kill a worker and what it started; returns when it is gone, with how it ended."""
        code = None if self._process is None else self._order(END, pid, [], END_SECONDS)
        if code is None:
            return "together with the process that started it"
        return f"by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"with exit code {code}"

    def close(self) -> None:
        """End it, and with it all workers."""
        process, self._process = self._process, None
        line, self._line = self._line, None
        if line is not None:
            line.close()
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
            process.kill()
            process.wait()

    def _order(self, tag: bytes, pid: int, fds: list[int], seconds: float) -> int | None:
        """The answer to an order; None, and no fork server left, if it could not be had."""
        if self._line is None:
            self._start()
        assert self._line is not None
        answer = b""
        try:
            self._line.settimeout(seconds)
            socket.send_fds(self._line, [ORDER.pack(tag, pid)], fds)
            answer = self._line.recv(ORDER.size)
        except OSError:
            pass
        finally:
            # Also when Ctrl-C comes between order and answer: a late answer must not be taken for the next one.
            if len(answer) < ORDER.size:
                self._abandon()
        return int(ORDER.unpack(answer)[1]) if len(answer) == ORDER.size else None

    def _start(self) -> None:
        line, other = socket.socketpair()
        path = json.dumps([str(entry) for entry in sys.path])
        with other:
            # A process group of its own, because Ctrl-C in the terminal is not meant for it; one thread for numpy,
            # because workers share the cores.
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, path, str(other.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                process_group=0,
                env={"OMP_NUM_THREADS": "1", **os.environ},
            )
        self._line = line

    def _abandon(self) -> None:
        if self._process is not None:
            self._process.kill()
        self.close()
