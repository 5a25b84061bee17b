"""Standard output and error that may be lost: a reader that goes away, a full disk, a terminal that was closed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase
from typing import Any, TextIO, cast

STANDARD = (1, 2)


class Nowhere(TextIOBase):
    """Takes text and forgets it."""

    def write(self, text: str) -> int:
        return len(text)


class Forgiving:
    """A text stream; what is written to it goes nowhere once writing has failed."""

    def __init__(self, stream: TextIO | TextIOBase) -> None:
        self._stream = stream
        self._lost = False

    def write(self, text: str) -> int:
        if not self._lost:
            try:
                return self._stream.write(text)
            except UnicodeError:
                raise
            except (OSError, ValueError):  # ValueError: it was closed
                self._lose()
        return len(text)

    def flush(self) -> None:
        if not self._lost:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._lose()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return not self._lost and not self._stream.closed and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _lose(self) -> None:
        """What Python still holds for the stream would fail again when the process ends, so it gets another end."""
        self._lost = True
        with suppress(OSError, ValueError):
            descriptor = self._stream.fileno()
            if descriptor in STANDARD:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


def forgiving(stream: TextIO | None) -> TextIO:
    """The stream, but losing it is no error; Python gives None for one that was closed before it started."""
    return cast(TextIO, Forgiving(Nowhere() if stream is None else stream))


def occupy_standard() -> None:
    """Open the standard descriptors that are closed, or the next file would become standard output."""
    for descriptor in (0, *STANDARD):
        try:
            os.fstat(descriptor)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


@contextmanager
def forgiving_output() -> Iterator[None]:
    """Within the block, whoever prints is not troubled by lost output."""
    before = sys.stdout, sys.stderr
    own = sys.stdout, sys.stderr = forgiving(before[0]), forgiving(before[1])
    try:
        yield
    finally:
        for stream in own:
            stream.flush()
        sys.stdout, sys.stderr = before


def say(text: str) -> None:
    """A line for the user on standard error."""
    print(text, file=forgiving(sys.stderr), flush=True)
