"""Operations that die, fail or keep a log. All pass what they let through to the operating system."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from surefoot.store.files import SYSTEM, Operations


class Crash(BaseException):
    """The process is dead: nothing in the package may catch this and go on."""


@dataclass(frozen=True)
class Call:
    """One operation as it was asked for."""

    name: str
    path: Path
    target: Path | None = None
    data: bytes = b""


class Fault(Protocol):
    """Decides about each operation before it happens; raises to prevent it."""

    def meet(self, call: Call) -> None: ...


class InterceptedOperations(Operations):
    """Shows each operation to a fault first. A write that fails has written half of its data."""

    def __init__(self, fault: Fault, *, real_sync: bool = False) -> None:
        self._fault = fault
        self._real_sync = real_sync
        self._paths: dict[int, Path] = {}

    def make_directory(self, path: Path) -> None:
        self._fault.meet(Call("make_directory", path))
        SYSTEM.make_directory(path)

    def create_file(self, path: Path) -> int:
        self._fault.meet(Call("create_file", path))
        descriptor = SYSTEM.create_file(path)
        self._paths[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        try:
            self._fault.meet(Call("write", self._paths[descriptor], data=bytes(data)))
        except BaseException:
            os.write(descriptor, data[: len(data) // 2])
            raise
        return SYSTEM.write(descriptor, data)

    def open_directory(self, path: Path) -> int:
        self._fault.meet(Call("open_directory", path))
        descriptor = SYSTEM.open_directory(path)
        self._paths[descriptor] = path
        return descriptor

    def sync(self, descriptor: int) -> None:
        self._fault.meet(Call("sync", self._paths[descriptor]))
        if self._real_sync:
            SYSTEM.sync(descriptor)

    def close(self, descriptor: int) -> None:
        path = self._paths.pop(descriptor)
        SYSTEM.close(descriptor)  # a failed close has closed, and a dead process leaves no descriptor
        self._fault.meet(Call("close", path))

    def rename(self, source: Path, target: Path) -> None:
        self._fault.meet(Call("rename", source, target))
        SYSTEM.rename(source, target)

    def remove_file(self, path: Path) -> None:
        self._fault.meet(Call("remove_file", path))
        SYSTEM.remove_file(path)

    def remove_directory(self, path: Path) -> None:
        self._fault.meet(Call("remove_directory", path))
        SYSTEM.remove_directory(path)


@dataclass
class Log:
    """No fault: remembers every operation."""

    calls: list[Call] = field(default_factory=list)

    def meet(self, call: Call) -> None:
        self.calls.append(call)


@dataclass
class CrashAt:
    """Dies at operation `index`; a dead process does nothing after that either."""

    index: int
    seen: int = 0

    def meet(self, call: Call) -> None:
        self.seen += 1
        if self.seen > self.index:
            raise Crash(f"operation {self.index}: {call.name} {call.path}")


@dataclass
class FailAt:
    """Fails with `code` at operation `index`; with `stays` also at all later ones that `code` forbids."""

    index: int
    code: int
    stays: bool
    spared: frozenset[str] = frozenset()
    seen: int = 0

    def meet(self, call: Call) -> None:
        self.seen += 1
        now = self.seen - 1
        if now == self.index or (self.stays and now > self.index and call.name not in self.spared):
            raise OSError(self.code, os.strerror(self.code))
