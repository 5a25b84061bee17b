"""Which demonstrations a configuration means: where they lie, whatever the working directory, and their sha256."""

from __future__ import annotations

from pathlib import Path

from surefoot.algo.demonstrations import fingerprint_of, is_minari
from surefoot.config import Config
from surefoot.errors import ConfigError


def with_demonstrations(config: Config) -> Config:
    """The configuration of a training that begins: demonstrations at their absolute place, with their fingerprint."""
    source = config.imitation.demonstrations
    if not source:
        return config
    place = absolute(source)
    found = fingerprint_of(place)
    if config.imitation.fingerprint not in ("", found):
        raise ConfigError(
            f"{place} has the sha256 {found}, not imitation.fingerprint = {config.imitation.fingerprint}: give the "
            "file that is meant, or leave the fingerprint out"
        )
    return _changed(config, demonstrations=place, fingerprint=found)


def at_another_place(config: Config, source: str | None) -> Config:
    """The configuration with its demonstrations at another place; which they are is checked by their fingerprint."""
    if source is None:
        return config
    if not config.imitation.demonstrations:
        raise ConfigError("--demonstrations is for runs that imitate a demonstration set: this one does not")
    return _changed(config, demonstrations=absolute(source))


def without_demonstrations_place(config: Config, moved: bool) -> Config:
    """The configuration with demonstrations known by their fingerprint only: where the file lies decides nothing. Runs
    of older versions have none, so that a person who says that they were ``moved`` is believed."""
    known = moved or config.imitation.fingerprint
    return _changed(config, demonstrations="known-by-its-fingerprint") if known else config


def absolute(source: str) -> str:
    """A file by its absolute path, a Minari data set by its name."""
    return source if is_minari(source) else str(Path(source).expanduser().absolute())


def _changed(config: Config, **settings: str) -> Config:
    return config.model_copy(update={"imitation": config.imitation.model_copy(update=settings)})
