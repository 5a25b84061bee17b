"""Messages between the training process and its workers: one byte of meaning, and a payload where there is one.

Python objects travel only here, over a socket pair that nobody else can reach, between processes of one program;
never through files (Y03).
"""

from __future__ import annotations

import socket
import struct
import time
from multiprocessing.reduction import ForkingPickler
from typing import Any

HEADER = struct.Struct("<cQ")
START, ATTACH, RESET, REVIVE, STEP, STATE, LOAD, CLOSE = b"s", b"a", b"r", b"v", b".", b"t", b"l", b"c"
"""What a worker is asked to do."""
DONE, FAILED = b"k", b"!"
"""What it answers."""


class Channel:
    """One end of a socket pair. A peer that is gone shows as ConnectionError, one that is silent as TimeoutError."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def send(self, tag: bytes, payload: bytes = b"", deadline: float | None = None) -> None:
        """Send a message, by ``deadline`` on the monotonic clock."""
        self._line.settimeout(_remaining(deadline))
        self._line.sendall(HEADER.pack(tag, len(payload)) + payload)

    def receive(self, deadline: float | None = None) -> tuple[bytes, bytes]:
        """The next message. What has already arrived is read even after the deadline."""
        tag, length = HEADER.unpack(self._read(HEADER.size, deadline))
        return tag, self._read(length, deadline) if length else b""

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _read(self, size: int, deadline: float | None) -> bytes:
        self._line.settimeout(_remaining(deadline))
        data = self._line.recv(size)
        if len(data) == size:
            return data
        parts = bytearray(data)
        while len(parts) < size:
            if not data:
                raise ConnectionResetError("the peer has hung up")
            self._line.settimeout(_remaining(deadline))
            data = self._line.recv(min(size - len(parts), 1 << 20))
            parts += data
        return bytes(parts)


def pack(value: Any) -> bytes:
    """A Python object as bytes, for another process of this program."""
    return bytes(ForkingPickler.dumps(value))


def unpack(data: bytes) -> Any:
    """The inverse of `pack`."""
    return ForkingPickler.loads(data)


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.001)
