"""The fork server: a small process that forks workers, ends them, and never outlives the training process.

Workers are forked here, not in the training process, because here is one thread and no torch: forking is safe, takes
milliseconds, and the imports are paid once. The fork server also ends everything its workers started, since each worker
leads a process group.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import sys
import traceback
from contextlib import suppress
from types import FrameType

from surefoot.output import forgiving
from surefoot.workers.process import serve

ORDER = struct.Struct("<cq")
"""What to do and a process id: `FORK` (with the worker's socket and memory) or `END`. It is answered by a process id,
or by how the process ended (its exit code, or minus a signal)."""
FORK, END = b"f", b"e"
PARENT_CHECK_SECONDS = 0.5
PR_SET_PDEATHSIG = 1


def main(line_fd: int, parent: int) -> None:
    """Obey orders until the parent hangs up or dies; then end all workers."""
    sys.stdout, sys.stderr = forgiving(sys.stdout), forgiving(sys.stderr)  # an env that prints must not fail for it
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave_it_to_the_parent)
    line = socket.socket(fileno=line_fd)
    workers: set[int] = set()
    try:
        while (order := _next_order(line, parent)) is not None:
            tag, pid, fds = order
            if tag == FORK:
                answer = _fork(line, *fds)
                workers.add(answer)
            else:
                # A worker of an earlier fork server died with that one; its id may be somebody else's by now.
                answer = _end(pid) if pid in workers else -signal.SIGKILL
                workers.discard(pid)
            line.sendall(ORDER.pack(tag, answer))
    except ConnectionError:
        pass  # the parent died between an order and its answer
    finally:
        for pid in workers:
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)


def _next_order(line: socket.socket, parent: int) -> tuple[bytes, int, list[int]] | None:
    """The next order, or None once the parent is gone.

    The parent's end of the line may live on in a process it forked, so its own life is watched too.
    """
    line.settimeout(PARENT_CHECK_SECONDS)
    while os.getppid() == parent:
        with suppress(TimeoutError):
            data, fds, _, _ = socket.recv_fds(line, ORDER.size, 2)
            if len(data) < ORDER.size:
                return None
            tag, pid = ORDER.unpack(data)
            return tag, pid, fds
    return None


def _fork(line: socket.socket, worker_fd: int, memory: int) -> int:
    fork_server = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            _die_with(fork_server)
            line.close()
            own_end = socket.socket(fileno=worker_fd)  # held to the last: the parent takes its closing for the death
            serve(own_end, memory)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)  # nothing of the fork server's is to be cleaned up by a worker
    with suppress(OSError):
        os.setpgid(pid, pid)  # both sides do, so that neither has to wait
    os.close(worker_fd)
    os.close(memory)
    return pid


def _end(pid: int) -> int:
    """Kill a worker with all it started, and wait until it is gone; how it ended."""
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _die_with(fork_server: int) -> None:
    """Have the kernel kill this process when the fork server dies, whatever an env is doing then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != fork_server:
        os._exit(1)


def _leave_it_to_the_parent(number: int, frame: FrameType | None) -> None:
    """Ctrl-C and service managers signal every process; the parent alone decides what follows.

    A handler instead of SIG_IGN, because programs that an env starts would inherit the latter.
    """
    del number, frame
