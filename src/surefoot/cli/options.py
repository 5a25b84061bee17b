"""Command-line options generated from the configuration's fields."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin

from surefoot.config.load import ENV_ARGUMENTS, choices, leaves, nearest_option
from surefoot.errors import ConfigError

DEST = "setting:"
"""Prefix under which argparse keeps the settings, apart from a command's own options."""
POSITIONAL = frozenset({"env"})
"""Fields that a command takes as an argument, not as an option."""


NEGATIVE_NUMBER = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")


class Parser(argparse.ArgumentParser):
    """Takes options by their full names only, and names the nearest right one when one is unknown."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self._negative_number_matcher = NEGATIVE_NUMBER  # argparse's own does not know exponents

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.fail_unknown(found, unknown)
        return found

    def error(self, message: str) -> NoReturn:
        """One line, and where to read on; the list of all options would bury it."""
        print(f"{self.prog}: {message}\nsee `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(2)

    def fail_unknown(self, found: argparse.Namespace, unknown: Sequence[str]) -> NoReturn:
        """Exit with the first argument that was not understood."""
        parser = getattr(found, "parser", self)
        options = [option.removeprefix("--") for action in parser._actions for option in action.option_strings]
        first = unknown[0]
        name = first.removeprefix("--").partition("=")[0]
        hint = nearest_option(name, options) if first.startswith("-") else ""
        owner: Parser = parser
        owner.error(f"unknown argument {first}{hint}")


def normalize_argv(argv: Sequence[str]) -> list[str]:
    """``--ppo.n_steps`` is ``--ppo.n-steps``."""
    out = []
    for word in argv:
        name, equals, value = word.partition("=")
        out.append(name.replace("_", "-") + equals + value if word.startswith("--") else word)
    return out


def add_settings(parser: argparse.ArgumentParser) -> None:
    """An option for every field of the configuration, with its docstring, bounds and default."""
    groups: dict[str, Any] = {}
    for name, field in leaves():
        section = name.rpartition(".")[0]
        if name in POSITIONAL:
            continue
        if section not in groups:
            groups[section] = parser.add_argument_group(f"settings: {section}" if section else "settings")
        kind = _describe(field.annotation)
        default = field.get_default(call_default_factory=True)
        groups[section].add_argument(
            "--" + name.replace("_", "-"),
            dest=DEST + name,
            nargs=_nargs(field.annotation),
            const="true" if _is(field.annotation, bool) else None,
            default=argparse.SUPPRESS,
            metavar=kind,
            help=f"{' '.join((field.description or '').split())} (default: {_show(default)})".replace("%", "%%"),
        )


def collect_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The given settings as nested sections, each value as typed as its text allows."""
    nested: dict[str, Any] = {}
    for dotted, raw in _given(arguments):
        *sections, name = dotted.split(".")
        target = nested
        for section in sections:
            target = target.setdefault(section, {})
        read = _read_count if dotted in COUNTS else parse_value
        try:
            target[name] = [read(word) for word in raw] if isinstance(raw, list) else read(raw)
        except ConfigError as error:
            raise ConfigError(f"--{dotted.replace('_', '-')}: {error}") from None
        if name in ENV_ARGUMENTS:
            require_object(f"--{dotted.replace('_', '-')}", target[name], raw)
    return nested


def require_object(option: str, value: Any, text: Any) -> None:
    """Raise if the arguments of an env are no JSON object."""
    if not isinstance(value, dict):
        raise ConfigError(f"{option} takes a JSON object such as '{{\"g\": 9.81}}', got {text!r}")


def swallowed_words(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """(setting, word): what an option that may take further values took as its last, though it is none for it."""
    annotations = {name: field.annotation for name, field in leaves()}
    for name, raw in _given(arguments):
        if raw and _nargs(annotations[name]) is not None:
            word = raw[-1] if isinstance(raw, list) else raw
            if isinstance(parse_value(word), str) and word not in choices(name):
                yield name, word


def whole_number(text: str) -> int:
    """An integer; one written as 1e6 counts."""
    try:
        value = _read_count(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return value


def parse_value(text: str) -> Any:
    """JSON where it is JSON, None for none, else the text itself."""
    if text.lower() in ("none", "null"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    except RecursionError:
        raise ConfigError(f"{text[:20]}… is nested too deeply") from None
    except ValueError:  # Python refuses to read such an integer
        raise ConfigError(f"{text[:20]}… has {len(text)} characters, too many for a number") from None
    try:
        return float(text)
    except ValueError:
        return text


def _given(arguments: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Dotted name and words of each setting on the command line."""
    for dest, raw in vars(arguments).items():
        if dest.startswith(DEST):
            yield dest.removeprefix(DEST), raw


def _read_count(text: str) -> Any:
    value = parse_value(text)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _admits(annotation: Any, kind: type) -> bool:
    return annotation is kind or any(_admits(part, kind) for part in get_args(annotation))


COUNTS = frozenset(
    name for name, field in leaves() if _admits(field.annotation, int) and not _admits(field.annotation, float)
)
"""Settings that are whole numbers."""


def _describe(annotation: Any) -> str:
    """A short word for the type, as help shows it."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _describe(get_args(annotation)[0])
    if origin is Literal:
        return "|".join(map(str, get_args(annotation)))
    if origin in (Union, UnionType):
        return "|".join(dict.fromkeys(_describe(a) for a in get_args(annotation)))
    if origin is tuple:
        return _describe(get_args(annotation)[0])
    if annotation is type(None):
        return "none"
    if origin is dict:
        return "JSON"
    return {int: "INT", float: "FLOAT", str: "TEXT", bool: "true|false"}.get(annotation, "VALUE")


def _nargs(annotation: Any) -> str | None:
    if get_origin(annotation) is Annotated:
        return _nargs(get_args(annotation)[0])
    if get_origin(annotation) is tuple:
        return "*"
    return "?" if _is(annotation, bool) else None


def _is(annotation: Any, kind: type) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return kind in get_args(annotation)
    return annotation is kind


def _show(default: Any) -> str:
    if isinstance(default, tuple | list):
        return " ".join(map(str, default)) or "none"
    if isinstance(default, bool) or default is None or default == {}:
        return {True: "true", False: "false"}.get(default, "none") if isinstance(default, bool) else "none"
    return str(default)
