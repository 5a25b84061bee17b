"""Build a `Config` from keyword arguments, a TOML file or dotted overrides, and write it back.

All ways end in one validation, so a mistake reads the same wherever it was made.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from surefoot.config.schema import Config, PPOConfig, Section
from surefoot.errors import ConfigError

KNOWN_ELSEWHERE = {
    "lr": "learning_rate",
    "num_envs": "n_envs",
    "num_steps": "n_steps",
    "epochs": "n_epochs",
    "update_epochs": "n_epochs",
    "minibatch_size": "batch_size",
    "lam": "gae_lambda",
    "lambda": "gae_lambda",
    "clip_coef": "clip_range",
    "entropy_coef": "ent_coef",
    "value_coef": "vf_coef",
    "policy_kwargs": "policy",
    "net_arch": "policy.hidden_sizes",
    "norm_obs": "normalize_observations",
    "norm_reward": "normalize_rewards",
    "norm_adv": "normalize_advantage",
    "tensorboard_log": "learn(run_dir=…)",
    "verbose": "learn(progress_bar=True)",
}
"""Names from other libraries, and what they are called here; used in error messages only."""


def from_dict(data: Mapping[str, Any]) -> Config:
    """Validate nested sections."""
    try:
        return Config.model_validate(dict(data))
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def from_flat(**settings: Any) -> Config:
    """Validate `PPO(...)` arguments: top-level and ppo fields flat, other sections as dicts."""
    top: dict[str, Any] = {}
    ppo: dict[str, Any] = {}
    for name, raw in settings.items():
        value = raw.item() if type(raw).__module__ == "numpy" and getattr(raw, "ndim", 1) == 0 else raw
        if name == "ppo" and isinstance(value, Mapping):
            ppo.update(value)
        elif name in Config.model_fields:
            top[name] = value
        elif name in PPOConfig.model_fields:
            ppo[name] = value
        else:
            raise ConfigError(
                f"unknown setting {name!r}{_nearest(name, [*Config.model_fields, *PPOConfig.model_fields])}"
            )
    return from_dict({**top, "ppo": ppo} if ppo else top)


def from_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file into nested sections, unvalidated (merge overrides, then `from_dict`)."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"no config file at {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from None


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Overlay nested sections; ``over`` wins."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        nested = isinstance(old, Mapping) and isinstance(value, Mapping) and key != "env_kwargs"
        merged[key] = merge(old, value) if nested else value  # type: ignore[arg-type]  # nested narrows old
    return merged


def to_toml(config: Config) -> str:
    """The resolved configuration as TOML; reading it back gives an equal `Config`."""
    lines, tables = [], []
    for name, value in config.model_dump(mode="python", exclude_none=True).items():
        if isinstance(value, dict):
            tables.append((name, value))
        else:
            lines.append(f"{name} = {_toml(value)}")
    for name, table in tables:
        lines += ["", f"[{name}]", *(f"{_key(k)} = {_toml(v)}" for k, v in table.items() if v is not None)]
    return "\n".join(lines) + "\n"


def config_hash(config: Config) -> str:
    """A short name of the configuration, equal for equal settings."""
    return hashlib.sha256(json.dumps(config.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()[:16]


def leaves(section: type[Section] = Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting as (dotted name, pydantic field)."""
    for name, field in section.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Section):
            yield from leaves(annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def nearest_option(name: str, options: list[str]) -> str:
    """``; did you mean …?`` or nothing."""
    return _nearest(name, options)


def _explain(error: ValidationError) -> str:
    return "\n".join(_sentence(detail) for detail in error.errors())


def _sentence(detail: Any) -> str:
    path = [str(part) for part in detail["loc"] if not _is_union_tag(str(part))]
    dotted = ".".join(path)
    if detail["type"] == "extra_forbidden":
        siblings = [
            name.removeprefix(f"{'.'.join(path[:-1])}.") for name, _ in leaves() if name.startswith(".".join(path[:-1]))
        ]
        return f"unknown setting {dotted!r}{_nearest(path[-1], siblings)}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if not path:
        return message
    hint = ""
    if detail["type"] == "literal_error" and isinstance(detail["input"], str):
        hint = _nearest(detail["input"], _choices(dotted))
    return f"{dotted} = {detail['input']!r}: {message[0].lower()}{message[1:]}{hint}"


def _is_union_tag(part: str) -> bool:
    """Pydantic adds the tried member of a union to the path; users have no such key."""
    return "[" in part or "(" in part or part in ("float", "str", "int", "bool", "constrained-int", "constrained-float")


def _choices(dotted: str) -> list[str]:
    field = dict(leaves()).get(dotted)
    return [a for a in _literals(field.annotation) if isinstance(a, str)] if field is not None else []


def _literals(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is None:
        return
    for argument in get_args(annotation):
        if isinstance(argument, str | int | bool):
            yield argument
        else:
            yield from _literals(argument)


def _nearest(name: str, options: list[str]) -> str:
    plain = name.replace("-", "_")
    known = KNOWN_ELSEWHERE.get(plain.rsplit(".", maxsplit=1)[-1])
    if known is not None:
        return f"; here it is called {known}"
    close = difflib.get_close_matches(plain, options, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(k))} = {_toml(v)}" for k, v in value.items()) + "}"
    raise ConfigError(f"{value!r} cannot be written to a config file: use numbers, strings, lists and tables")
