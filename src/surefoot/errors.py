"""Every error that Surefoot raises on purpose. Each message says what, where, and what to do."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

FOREIGN = (Exception, SystemExit)
"""What the code of an env may raise: `sys.exit()` there is a fault like others. Ctrl-C is the user's own."""


class SurefootError(Exception):
    """Base of all errors raised on purpose."""


class SurefootWarning(UserWarning):
    """Something works, but probably not as meant."""


class ConfigError(SurefootError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another."""


class UnsupportedSpaceError(SurefootError):
    """An observation or action space that no encoder or distribution handles."""


class EnvError(SurefootError):
    """An environment raised, or broke its contract."""


class EnvRaisedError(EnvError):
    """An environment itself raised, in step or reset; one made anew may do better."""


class EnvStateError(EnvError):
    """The open episode of an environment cannot be saved, although it says that it can be."""


class NonFiniteError(SurefootError):
    """NaN or Inf where a finite number must stand."""


class RiskError(SurefootError):
    """A risk measure cannot be known or a limit not be kept in this environment."""


class RunError(SurefootError):
    """A run directory is missing, occupied or unreadable."""


class MissingExtraError(SurefootError):
    """An optional package is needed and not installed."""


class DataError(SurefootError):
    """Prices that cannot be used as they are; ``problems`` has (row, column, rule, text) of each reason."""

    LISTED = 8

    def __init__(self, source: str, problems: Sequence[tuple[int | None, str | None, str, str]]) -> None:
        self.source = source
        self.problems = list(problems)
        lines = [f"\n  {describe_problem(problem)}" for problem in self.problems[: self.LISTED]]
        more = len(self.problems) - self.LISTED
        if more > 0:
            lines.append(f"\n  and {more} more: see `surefoot market check`, or .problems of this error")
        super().__init__(f"{source}: refused for {len(self.problems)} problem(s)" + "".join(lines))


class CatalogueError(SurefootError):
    """A row was asked for that the catalogue does not have."""


class CodeCacheError(SurefootError):
    """There is no directory for compiled code that only its user can write."""


class StorageError(SurefootError):
    """The disk refused an operation: full, read-only, not permitted."""

    def __init__(self, operation: str, path: Path, error: OSError) -> None:
        self.operation = operation
        self.path = path
        self.errno = error.errno
        super().__init__(f"cannot {operation} {path}: {error.strerror or error}{_storage_advice(error.errno)}")


class CheckpointError(SurefootError):
    """A checkpoint cannot be written or read as asked."""


class NoCheckpointError(CheckpointError):
    """No readable checkpoint where one was expected; `skipped` names those that were found and refused."""

    def __init__(self, path: Path, skipped: Sequence[tuple[Path, str]] = ()) -> None:
        self.path = path
        self.skipped = list(skipped)
        refused = "".join(f"\n  skipped {bad}: {reason}" for bad, reason in skipped)
        super().__init__(f"no readable checkpoint at {path}{refused}")


class CorruptCheckpointError(CheckpointError):
    """A checkpoint whose files are not what a writer of Surefoot left there."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"checkpoint {path} is corrupt: {reason}")


class NewerFormatError(CheckpointError):
    """A checkpoint of a later format than this version reads."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        self.path = path
        self.found = found
        self.known = known
        super().__init__(
            f"checkpoint {path} has format {found}, this version of surefoot reads up to {known}; "
            "upgrade with: pip install -U surefoot"
        )


def describe_problem(problem: tuple[int | None, str | None, str, str]) -> str:
    """A problem of data in one line."""
    row, column, rule, text = problem
    where = ", ".join([f"row {row}"] * (row is not None) + [f"column {column}"] * (column is not None))
    return f"{where + ': ' if where else ''}{text} [{rule}]"


def _storage_advice(code: int | None) -> str:
    """What the reader of a storage error can do about it."""
    if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "; free space or choose another directory"
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "; choose a directory that can be written"
    return ""
