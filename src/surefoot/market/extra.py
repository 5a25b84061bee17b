"""Packages of the ``market`` extra, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from surefoot.errors import MissingExtraError


def needed(module: str, purpose: str, extra: str = "market") -> Any:
    """Import a package of an extra, or say which line installs it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingExtraError(f'{purpose} needs the package {package}: pip install "surefoot[{extra}]"') from None
