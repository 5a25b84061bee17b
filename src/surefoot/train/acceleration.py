"""The door to the faster parts, which may be missing."""

from __future__ import annotations

from importlib.util import find_spec

from surefoot.algo.learner import Learner
from surefoot.errors import ConfigError


def accelerate(learner: Learner, total_updates: int) -> None:
    """Before training of ``total_updates`` in all: let faster parts stand in for plain ones, if the room is there."""
    if find_spec("surefoot.fast") is None:
        if learner.config.compile is True:
            raise ConfigError('compile = true: this installation has no surefoot.fast; set compile = "auto" or false')
        return
    from surefoot.fast import accelerate as with_faster_parts

    with_faster_parts(learner, total_updates)
