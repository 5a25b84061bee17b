"""SIGINT, SIGTERM and SIGHUP as a request to stop at the next safe point."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Collection
from types import FrameType, TracebackType
from typing import Any

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INSISTENT = (signal.SIGINT, signal.SIGTERM)
"""Of these a second one acts at once. SIGHUP often comes twice, or beside SIGTERM, when a terminal is closed."""


class Interrupted(SystemExit):
    """Training stopped on a signal after its state was saved; ends the process with 128 + the signal's number.

    An iteration that was given up half way is not part of what is saved; the agent in memory is then in the midst of
    it, and the saved one is the one to go on with.
    """

    def __init__(self, number: int, where: str, timesteps: int) -> None:
        super().__init__(128 + number)
        self.number, self.where, self.timesteps = number, where, timesteps

    def __str__(self) -> str:
        name = signal.Signals(self.number).name
        return f"stopped by {name}; everything up to env step {self.timesteps} is saved in {self.where}"


class Signals:
    """While active, the first signal is only noted; a second SIGINT or SIGTERM acts at once, as without Surefoot.

    A signal that is ignored (`nohup`, a job in the background) stays ignored. Handlers can be set in the main thread
    alone; elsewhere this does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._when = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in HANDLED:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: somebody's handler outside Python
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore(HANDLED)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.received is None:
            self.received, self._when = number, time.monotonic()
            self._restore(INSISTENT)

    def waited(self) -> float:
        """Seconds since the signal came; 0 if none has."""
        return 0.0 if self.received is None else time.monotonic() - self._when

    def _restore(self, numbers: Collection[int]) -> None:
        for number in numbers:
            if number in self._previous:
                signal.signal(number, self._previous.pop(number))
