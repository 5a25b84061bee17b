"""Files are data: an env that a file names is made only if that imports no module of the file's choosing (Y03)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from surefoot.config.schema import Config
from surefoot.errors import ConfigError

NAMES_CODE = re.compile(r"\s*([A-Za-z_]\w*(?:\.\w+)*)\s*:\s*[A-Za-z_][\w./-]*\s*")
"""``module:callable``, or Gymnasium's ``module:Id-v0``."""

MAKES_ANOTHER = ("GymV21Environment-", "GymV26Environment-")
"""Ids of Gymnasium that make the env of an argument: what stands before its colon is imported, whatever comes after."""


def require_no_code(
    env: str,
    env_kwargs: Mapping[str, Any],
    source: str,
    trusted: Collection[str] = (),
    setting: str = "env",
    instead: str = "env=…",
) -> None:
    """Raise if making the env that ``source`` names would import a module that the caller has not named itself.

    ``setting`` is where the source has it, ``instead`` how one gives it in Python.
    """
    another = env.startswith(MAKES_ANOTHER)
    for where, text in _texts(env, env_kwargs):
        module = text.partition(":")[0].strip()
        harmless = where and not another and NAMES_CODE.fullmatch(text) is None
        if ":" not in text or module in trusted or harmless:
            continue
        said = f"{setting}_kwargs{where} = {text!r}" if where else f"{setting} = {text!r}"
        raise ConfigError(
            f"{source} says {said}, which would import the module {module!r} and run it. A file is not believed in "
            f"that: if you know the module, pass --trust-module {module} on the command line, or {instead} in Python"
        )


def require_no_code_in_evaluation(
    config: Config, source: str, trusted: Collection[str] = (), named: Collection[str] = ()
) -> None:
    """The same for the env that a run is evaluated in; ``named`` are settings of the run that the caller gave."""
    run = config.run
    env = "" if "eval_env" in named else run.eval_env
    env_kwargs = {} if "eval_env_kwargs" in named else run.eval_env_kwargs
    if env or env_kwargs:
        whose = env or run.eval_env or config.env
        if not env and ":" in whose:  # it is not the source's to answer for
            whose = ""
        instead = "run=dict(eval_env=…, eval_env_kwargs=…)"
        require_no_code(whose, env_kwargs, source, trusted, "run.eval_env", instead)


def _texts(env: str, env_kwargs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text that may come to name code, and where it stands; our own worlds read none of theirs as code."""
    from surefoot.worlds.registration import OWN_NAMESPACE  # imports Gymnasium, which mistakes need not wait for

    yield "", env
    if not env.startswith(OWN_NAMESPACE):
        yield from _inside(env_kwargs, "")


def _inside(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _inside(str(key), f"{where}[{key!r}]")
            yield from _inside(part, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from _inside(part, f"{where}[{i}]")
