"""Build a `Config` from keyword arguments, a TOML file or dotted overrides, and write it back.

All ways end in one validation, so a mistake reads the same wherever it was made.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from surefoot.config.schema import ACTING, Config, PPOConfig
from surefoot.config.section import Section
from surefoot.config.switches import switch_errors
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
    "adaptive_kl": "adaptive_lr_kl",
    "head_ent_floors": "head_ent_coef_floors",
    "policy_kwargs": "policy",
    "net_arch": "policy.hidden_sizes",
    "norm_obs": "normalize_observations",
    "norm_reward": "normalize_rewards",
    "norm_adv": "normalize_advantage",
    "tensorboard_log": "learn(run_dir=…)",
    "verbose": "learn(progress_bar=True)",
}
"""Names from other libraries, and what they are called here; used in error messages only."""


RENAMED = {("ppo", "adaptive_kl"): "adaptive_lr_kl", ("ppo", "head_ent_floors"): "head_ent_coef_floors"}
"""Settings that had another name when old runs and checkpoints were written."""
ENV_ARGUMENTS = ("env_kwargs", "eval_env_kwargs")
"""Settings that are arguments of one env: given anew, they are all of them."""
FINGERPRINTED = ("data", "demonstrations")
"""Settings that name a file, beside whose sha256 they stand; named anew, it is another file."""
NONE = "none"
"""How TOML, which has no None, says it where that is not the default."""
MAX_BYTES = 1 << 20
"""Of a config file."""
MAX_SHOWN = 200
"""Characters of a value in a message."""


def with_new_names(data: Mapping[str, Any]) -> dict[str, Any]:
    """Nested sections that an older version wrote, under the names of today.

    All settings are written, those of a risk that is off too. Defaults have changed since, so that they would look
    as if someone had set them.
    """
    found = dict(data)
    for (section, old), new in RENAMED.items():
        part = found.get(section)
        if isinstance(part, Mapping) and old in part:
            found[section] = {new if key == old else key: value for key, value in part.items()}
    risk = found.get("risk")
    if isinstance(risk, Mapping) and risk.get("kind") == "none":  # defaults of then, which had no effect
        found["risk"] = {"kind": "none"}
    return found


def from_dict(data: Mapping[str, Any], acting: bool = False) -> Config:
    """Validate nested sections; ``acting`` leaves out the rules that only training needs."""
    try:
        config = Config.model_validate(dict(data), context=ACTING if acting else None)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None
    require_switches(data, config)
    return config


def require_switches(given: Mapping[str, Any], config: Config) -> None:
    """Raise if nested settings are given of a section that they do not switch on."""
    if found := switch_errors(given, config):
        raise ConfigError("; ".join(found))


def from_flat(**settings: Any) -> Config:
    """Validate `PPO(...)` arguments: top-level and ppo fields flat, other sections as dicts."""
    return from_dict(nested(settings))


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`PPO(...)` arguments as sections, unvalidated but for their names."""
    top: dict[str, Any] = {}
    flat: dict[str, Any] = {}
    for name, raw in settings.items():
        value = raw.item() if type(raw).__module__ == "numpy" and getattr(raw, "ndim", 1) == 0 else raw
        if name in Config.model_fields:
            top[name] = value
        elif name in PPOConfig.model_fields:
            flat[name] = value
        else:
            known = [*Config.model_fields, *PPOConfig.model_fields, *(dotted for dotted, _ in leaves())]
            raise ConfigError(f"unknown setting {name!r}{nearest_option(name, known)}")
    return top | {"ppo": _with_flat(top.get("ppo", {}), flat)} if flat else top


def _with_flat(section: Any, flat: Mapping[str, Any]) -> Any:
    """The section ``ppo`` and its flat settings together; what is no section stays, for validation to name."""
    given = section.model_dump(exclude_unset=True) if isinstance(section, PPOConfig) else section
    if not isinstance(given, Mapping):
        return given
    for name in flat.keys() & given.keys():
        if flat[name] != given[name]:
            raise ConfigError(f"{name} = {flat[name]!r} contradicts ppo.{name} = {given[name]!r}: give one of them")
    return {**given, **flat}


def from_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file into nested sections, unvalidated (merge overrides, then `from_dict`)."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"no config file at {path}") from None
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"the config file {path} is longer than {MAX_BYTES} bytes")
    try:
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply") from None
    except ValueError as error:  # no TOML, no text, or an integer that Python refuses to read
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Overlay nested sections; ``over`` wins. What stands in place of a section stays, for validation to name."""
    merged = dict(base)
    for key, value in over.items():
        if key not in base or key in ENV_ARGUMENTS or not isinstance(value, Mapping):
            merged[key] = value
        elif isinstance(base[key], Mapping):
            merged[key] = merge(base[key], value)
            if "fingerprint" not in value and any(place in value for place in FINGERPRINTED):
                merged[key].pop("fingerprint", None)
    return merged


def to_toml(config: Config) -> str:
    """The resolved configuration as TOML; reading it back gives an equal `Config`."""
    lines, tables = [], []
    for name, value in config.model_dump(mode="python").items():
        if isinstance(value, dict):
            tables.append((name, value))
        else:
            lines.append(f"{name} = {_toml(value, name)}")
    for name, table in tables:
        given = table if name == "env_kwargs" else _without_nones(name, table)
        lines += ["", f"[{name}]", *(f"{_key(k)} = {_toml(v, f'{name}.{k}')}" for k, v in given.items())]
    return "\n".join(lines) + "\n"


def _without_nones(section: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a section as TOML can hold them: a None that is the default goes unwritten."""
    usual = {name: field.get_default(call_default_factory=True) for name, field in leaves()}
    return {
        name: NONE if value is None else value
        for name, value in settings.items()
        if value is not None or usual[f"{section}.{name}"] is not None
    }


def config_hash(config: Config) -> str:
    """A short name of the configuration, equal for equal settings."""
    return hashlib.sha256(json.dumps(config.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()[:16]


def flat_settings(config: Config) -> dict[str, Any]:
    """All settings by dotted name, as JSON holds them."""
    found: dict[str, Any] = {}
    for name, value in config.model_dump(mode="json").items():
        section = isinstance(value, dict) and name != "env_kwargs"
        found |= {f"{name}.{key}": part for key, part in value.items()} if section else {name: value}
    return found


def leaves(section: type[Section] = Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting as (dotted name, pydantic field)."""
    for name, field in section.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Section):
            yield from leaves(annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def nearest_option(name: str, options: list[str]) -> str:
    """``; did you mean …?`` or nothing. Options are names, dotted names or choices."""
    by_plain = {_plain(option): option for option in options}
    plain = _plain(name)
    known = KNOWN_ELSEWHERE.get(plain.rpartition(".")[2])
    if known is not None:
        here = [known] if known in by_plain else _homes(known, by_plain)
        return f"; here it is called {' or '.join(by_plain[h] for h in here) or known}"
    longer = [option for option in by_plain if option.rpartition(".")[2].startswith(f"{plain}_")]
    close = _homes(plain, by_plain) or longer or difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.6)
    return f"; did you mean {' or '.join(repr(by_plain[c]) for c in close)}?" if close else ""


def choices(dotted: str) -> list[str]:
    """The words that a setting can be, if they are counted."""
    field = dict(leaves()).get(dotted)
    return [a for a in _literals(field.annotation) if isinstance(a, str)] if field is not None else []


def _explain(error: ValidationError) -> str:
    return "\n".join(_sentence(detail) for detail in error.errors())


def _sentence(detail: Any) -> str:
    path = [str(part) for part in detail["loc"] if not _is_union_tag(str(part))]
    dotted = ".".join(path)
    if detail["type"] == "extra_forbidden":
        return f"unknown setting {dotted!r}{nearest_option(path[-1], _siblings(path[:-1]))}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if not path:
        return message
    hint = ""
    if detail["type"] == "literal_error" and isinstance(detail["input"], str):
        hint = nearest_option(detail["input"], choices(".".join(part for part in path if not part.isdigit())))
    return f"{dotted} = {_shown(detail['input'])}: {message[0].lower()}{message[1:]}{hint}"


def _shown(value: Any) -> str:
    """A value in a message, which is for reading."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists in lists
        return "…"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _is_union_tag(part: str) -> bool:
    """Pydantic adds the tried member of a union to the path; users have no such key."""
    return "[" in part or "(" in part or part in ("float", "str", "int", "bool", "constrained-int", "constrained-float")


def _siblings(sections: list[str]) -> list[str]:
    """What could stand in a section; outside of all, the sections too."""
    if not sections:
        return [*Config.model_fields, *(name for name, _ in leaves())]
    prefix = ".".join([*sections, ""])
    return [name.removeprefix(prefix) for name, _ in leaves() if name.startswith(prefix)]


def _literals(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is None:
        return
    for argument in get_args(annotation):
        if isinstance(argument, str | int | bool):
            yield argument
        else:
            yield from _literals(argument)


def _plain(name: str) -> str:
    return name.replace("-", "_").lower()


def _homes(name: str, options: Iterable[str]) -> list[str]:
    """Dotted options that are the name in some section."""
    return [option for option in options if option.endswith(f".{name}")]


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _quoted(name)


def _quoted(text: str) -> str:
    """A basic string of TOML: the escapes of JSON, but characters beyond 16 bits as they are, and no raw DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v, where) for v in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(k))} = {_toml(v, f'{where}.{k}')}" for k, v in value.items()) + "}"
    raise ConfigError(f"{where} = {value!r} cannot be written to a config file: use numbers, text, lists and tables")
