"""Surefoot: a PPO that keeps its footing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot import math as math
    from surefoot.actions.heads import HeadSpec as HeadSpec
    from surefoot.config import Config as Config
    from surefoot.config.presets import preset as preset
    from surefoot.train.ppo import PPO as PPO

    __version__: str

__all__ = ["PPO", "Config", "HeadSpec", "__version__", "math", "preset"]

_HOMES = {
    "PPO": "surefoot.train.ppo",
    "Config": "surefoot.config",
    "HeadSpec": "surefoot.actions.heads",
    "preset": "surefoot.config.presets",
}


def __getattr__(name: str) -> Any:
    """Import on first use, so that the command line's help does not wait for torch."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "math":
        return import_module("surefoot.math")
    if name == "__version__":
        return import_module("importlib.metadata").version("surefoot")
    raise AttributeError(f"module 'surefoot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
