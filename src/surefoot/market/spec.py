"""Parts given as plain data: ``"rsi(14)"``, ``"drawdown(threshold=0.1)"`` or ``{"name": "rsi", "period": 14}``."""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

from surefoot.errors import ConfigError

PartT = TypeVar("PartT")
Spec = str | Mapping[str, Any]


def build(spec: Spec, kinds: Mapping[str, type[PartT]], what: str) -> PartT:
    """The part that ``spec`` names, a dataclass out of ``kinds``; ``what`` is how an error calls such a part."""
    name, positional, named = _read(spec, what)
    if name not in kinds:
        raise ConfigError(f"{what} {name!r} is not known{nearest(name, kinds)}; there are: {', '.join(sorted(kinds))}")
    kind = kinds[name]
    settings = [x.name for x in fields(kind) if x.init]  # type: ignore[arg-type]  # every kind is a dataclass
    if len(positional) > len(settings):
        raise ConfigError(
            f"{what} {spec!r} has {len(positional)} numbers, {name} takes {len(settings)}: {', '.join(settings)}"
        )
    given = dict(zip(settings, positional, strict=False))
    for key, value in named.items():
        if key not in settings:
            raise ConfigError(f"{what} {spec!r} has no setting {key!r}{nearest(key, settings)}; it takes {settings}")
        if key in given:
            raise ConfigError(f"{what} {spec!r} gives {key} twice")
        given[key] = value
    types = get_type_hints(kind)
    return kind(**{key: _typed(value, types[key], f"{key} of {what} {spec!r}") for key, value in given.items()})


def nearest(name: str, options: Iterable[str]) -> str:
    """``; did you mean 'rsi'?``, or nothing if no option is near."""
    close = difflib.get_close_matches(str(name), list(options), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def require(holds: bool, text: str) -> None:
    """Raise `ConfigError` with ``text`` unless ``holds``."""
    if not holds:
        raise ConfigError(text)


def _read(spec: Spec, what: str) -> tuple[str, list[Any], dict[str, Any]]:
    if isinstance(spec, Mapping):
        rest = dict(spec)
        name = rest.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(f'{what} {dict(spec)!r} has no name: write {{"name": …, settings}}')
        return name, [], rest
    if not isinstance(spec, str):
        raise ConfigError(f"{what} {spec!r} must be text such as 'name(14)' or a dict with a name")
    try:
        name, settings = re.fullmatch(r"\s*(\w+)\s*(\(.*\))?\s*", spec).groups()  # type: ignore[union-attr]  # caught
        tree = ast.parse(f"_{settings or '()'}", mode="eval").body  # a name such as return is none of Python's
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            raise ValueError
        positional = [ast.literal_eval(x) for x in tree.args]
        named = {str(x.arg): ast.literal_eval(x.value) for x in tree.keywords if x.arg is not None}
        return name, positional, named
    except (SyntaxError, ValueError, TypeError, AttributeError):
        raise ConfigError(f"{what} {spec!r} cannot be read: write it as 'name', 'name(14)' or 'name(key=14)'") from None


def _typed(value: Any, wanted: Any, whose: str) -> Any:
    """``value`` if it is of the wanted type; an int may stand for a float."""
    if wanted is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if wanted in (int, str, bool) and type(value) is wanted:
        return value
    name = getattr(wanted, "__name__", str(wanted))
    raise ConfigError(f"{whose} must be {'a finite number' if wanted is float else name}, not {value!r}")
