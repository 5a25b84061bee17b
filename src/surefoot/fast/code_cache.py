"""The directory of compiled code: it belongs to the user, and no one else can write there (Y07).

What is in it is loaded and run. Torch's default lies in the shared directory for temporary files, under a name that
anyone can take first; so Surefoot has its own: ``$SUREFOOT_CACHE_DIR``, else a ``$TORCHINDUCTOR_CACHE_DIR`` that no
one else can enter, else ``$XDG_CACHE_HOME/surefoot``, else ``~/.cache/surefoot``.
"""

from __future__ import annotations

import os
import stat
import warnings
from pathlib import Path
from typing import Any

from surefoot.errors import CodeCacheError

OWN_VARIABLE, TORCH_VARIABLE = "SUREFOOT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"
NAME = "compiled"


def use_private_cache() -> Path:
    """Have torch keep compiled code where no one else can write; comes before anything is built or loaded.

    Raises `CodeCacheError` if there is no such directory.
    """
    directory = private_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, while it imports its compiler
        from torch._inductor import codecache
    headers = str(directory / "precompiled_headers")
    # Chosen when torch is imported, whatever the variable says; some versions have no such headers.
    if vars(codecache).get("_HEADER_DIR", headers) != headers:
        codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR = headers, os.path.join(headers, "locks")
        codecache._precompile_header.cache_clear()
    os.environ[TORCH_VARIABLE] = str(directory)
    return directory


def load_source(path: Path, flags: tuple[str, ...]) -> Any:
    """The library of a C++ source, compiled on the machine it runs on, or taken from the cache of compiled code; raises
    if the compiler fails."""
    use_private_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, while it imports its compiler
        from torch._inductor.codecache import CppCodeCache
    return CppCodeCache.load(path.read_text(encoding="utf-8"), needs_vec_isa=True, extra_flags=flags)


def private_cache() -> Path:
    """The directory, made if it is missing; raises `CodeCacheError` unless it is ours alone."""
    torch_directory = os.environ.get(TORCH_VARIABLE)
    if torch_directory and not os.environ.get(OWN_VARIABLE) and _fault(Path(torch_directory), others=0o077) is None:
        return Path(torch_directory).absolute()
    base = _base()
    for directory, others in ((base, 0o022), (base / NAME, 0o077)):
        try:
            directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise CodeCacheError(f"cannot make the directory of compiled code {directory}: {error.strerror}") from error
        fault = _fault(directory, others)
        if fault is not None:
            raise CodeCacheError(
                f"compiled code is not taken from {directory}: {fault}. Remove it, or set {OWN_VARIABLE} to a "
                "directory of your own"
            )
    return base / NAME


def _base() -> Path:
    named, shared = os.environ.get(OWN_VARIABLE), os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named).absolute()
    if shared and os.path.isabs(shared):
        return Path(shared, "surefoot")
    try:
        return Path.home() / ".cache" / "surefoot"
    except RuntimeError as error:
        raise CodeCacheError(
            f"there is no home directory for compiled code; set {OWN_VARIABLE} to a directory of your own"
        ) from error


def _fault(directory: Path, others: int) -> str | None:
    """Why code in a directory may be someone else's; ``others`` are the permissions that only its owner may have."""
    try:
        found = os.lstat(directory)
    except OSError as error:
        return f"{error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return "it is a symbolic link" if stat.S_ISLNK(found.st_mode) else "it is not a directory"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, not to you (user {os.geteuid()})"
    if found.st_mode & others:
        return f"others may use it (permissions {stat.S_IMODE(found.st_mode):o}, not {0o777 & ~others:o})"
    for parent in Path(os.path.realpath(directory)).parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"anyone may replace it, since anyone may write to {parent}"
    return None
