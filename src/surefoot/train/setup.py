"""Before an agent is made: the configuration and the env belong together, and everything can be saved."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv

from surefoot.actions.heads import heads_of
from surefoot.algo.build import observed_layout
from surefoot.config import Config, MarketConfig, RunConfig, from_dict, from_flat, merge, nested
from surefoot.config.load import require_switches
from surefoot.config.market_presets import MARKET_ID
from surefoot.config.risk_rules import limit_name
from surefoot.config.schema import training_contradictions
from surefoot.config.section import changed
from surefoot.errors import ConfigError, SurefootWarning
from surefoot.policy.own_encoder import EncoderClass, import_encoder, name_of
from surefoot.rollout.features import entries_of
from surefoot.rollout.make import EnvLike, own_n_envs, require_env
from surefoot.rollout.recipe import Recipe, recipe_of
from surefoot.spaces import Layout
from surefoot.store import jsontext
from surefoot.train.demonstrations import with_demonstrations
from surefoot.train.footprint import require_memory
from surefoot.train.market import plan_market, require_market_env
from surefoot.vector.interface import Envs


def configure(env: EnvLike, settings: dict[str, Any]) -> tuple[Config, EncoderClass | None]:
    """The configuration of ``PPO(env, **settings)``, and the encoder that these name."""
    require_env(env)
    n_envs = own_n_envs(env)
    own = {} if n_envs is None else {"n_envs": n_envs}
    settings, encoder = with_encoder_by_name(settings)
    return settled(env, from_flat(**(own | settings))), encoder


def trusted_encoder(name: str, trusted: Collection[str]) -> EncoderClass | None:
    """The encoder that a file names, if the caller has named its module."""
    return import_encoder(name) if name.partition(":")[0] in trusted else None


def with_encoder_by_name(settings: Mapping[str, Any]) -> tuple[dict[str, Any], EncoderClass | None]:
    """Settings in which an encoder class stands by its name, and the class; what a caller names is imported."""
    policy = settings.get("policy")
    given = policy.get("encoder") if isinstance(policy, Mapping) else None
    if not given:
        return dict(settings), None
    if isinstance(given, str):
        return dict(settings), import_encoder(given) if ":" in given else None
    if not callable(given) or not hasattr(given, "__qualname__"):
        raise ConfigError(f"policy.encoder must be a class or module:Class, got {given!r}")
    return {**settings, "policy": {**policy, "encoder": name_of(given)}}, given  # type: ignore[dict-item]  # a Mapping


def settled(env: EnvLike, config: Config) -> Config:
    """The configuration with what the env itself decides; a contradiction between the two is refused."""
    require_env(env)
    n_envs = own_n_envs(env)
    if n_envs is not None and config.n_envs != n_envs:
        raise ConfigError(
            f"n_envs = {config.n_envs}, but the given {type(env).__name__} is {n_envs} env(s); "
            f"set n_envs = {n_envs} or leave it out, or give an id or a callable"
        )
    config = _with_instance(env, config) if n_envs is not None else _with_maker(env, config)
    if config.market.data and not config.env_kwargs.get("fingerprint"):
        config = _with_market(env, config)
    config = with_demonstrations(config)
    _require_json("env_kwargs", config.env_kwargs)
    _require_json("run.eval_env_kwargs", config.run.eval_env_kwargs)
    require_device(config)
    require_memory(config)
    return config


def _with_market(env: EnvLike, config: Config) -> Config:
    """For a market that is described by the configuration: the arguments of its envs."""
    if not isinstance(env, str):
        raise ConfigError(f"market.data is for PPO({MARKET_ID!r}, …), and a {type(env).__name__} is given")
    require_market_env(env)
    if config.env_kwargs or config.run.eval_env_kwargs:
        raise ConfigError("env_kwargs and run.eval_env_kwargs come from the section market here: leave them out")
    return plan_market(config).config


def with_feature_indices(config: Config, envs: Envs) -> Config:
    """The configuration with features by index that only these envs know by name: a loaded agent has no envs."""
    fixed = config.robust.fixed_features
    columns = envs.observation_columns() if fixed else ()
    if not columns:
        return config
    sizes = {leaf.name: math.prod(leaf.shape) for leaf in observed_layout(envs, config).leaves if leaf.is_continuous}
    if not sizes:
        return config  # which the term says
    places = [entries_of(text, sizes, columns) for text in fixed]
    indices = tuple(f"{leaf}:{i}" for leaf, entries in places for i in entries)
    return config.model_copy(update={"robust": config.robust.model_copy(update={"fixed_features": indices})})


def adopted(env: EnvLike | None, config: Config) -> Config:
    """The configuration of a saved agent for the envs that it is given now; None leaves those of the configuration."""
    if env is None:
        return config
    require_env(env)
    n_envs = own_n_envs(env)
    if n_envs is not None:  # it lives in this process
        made = {"env": "", "env_kwargs": {}, "n_envs": n_envs, "workers": 0, "vectorization": "auto"}
        made |= {"market": MarketConfig()}
        return _with_instance(env, config.model_copy(update=made))
    named = env if isinstance(env, str) else ""
    same = named == config.env
    return config.model_copy(
        update={
            "env": named,
            "env_kwargs": config.env_kwargs if same else {},
            "vectorization": config.vectorization if same and named else "auto",
            "market": config.market if same else MarketConfig(),
        }
    )


def overridden(config: Config, overrides: dict[str, Any]) -> Config:
    """A saved configuration with other settings; what decides the networks and their inputs cannot change."""
    given = nested(overrides)
    changed = merge(config.model_dump(), given)
    saved, config = config, from_dict(changed, acting=True)
    require_switches(given, config)
    for name in flat_names(given):
        if (name.startswith(FIXED_SECTIONS) and name != "policy.encoder") or name in FIXED:
            raise ConfigError(f"{name} is part of what was saved and cannot be another when it is loaded: leave it out")
    if (unit := limit_name(saved.risk)) != limit_name(config.risk):
        raise ConfigError(
            f"risk.{unit} may be another number when it is loaded, but what it is a limit of is part of what was saved"
        )
    return with_demonstrations(config) if "imitation.demonstrations" in flat_names(given) else config


FIXED_SECTIONS = ("policy.", "market.")
FIXED = frozenset(
    f"{section}.{name}"
    for section, names in {
        "critic": ("kind", "n_quantiles", "n_atoms", "v_min", "v_max", "twin", "popart"),
        "memory": ("kind", "hidden_size", "layers", "output_sizes", "shared", "span"),
        "ppo": ("normalize_observations", "normalize_rewards"),
        "risk": ("kind", "observe_return"),
    }.items()
    for name in names
)
"""Settings on which the names, shapes or meaning of saved tensors depend."""


def flat_names(sections: Mapping[str, Any]) -> list[str]:
    """Dotted names of nested settings."""
    return [
        f"{name}.{key}"
        for name, part in sections.items()
        if isinstance(part, Mapping) and name != "env_kwargs"
        for key in part
    ] + [name for name, part in sections.items() if not isinstance(part, Mapping) or name == "env_kwargs"]


def require_trainable(config: Config) -> None:
    """Raise if the rules about training do not hold; when an agent is loaded to act they may not."""
    found = training_contradictions(config)
    if found:
        raise ConfigError("; ".join(found))


def other_env(saved: Config, now: Config) -> str | None:
    """Why open episodes of one configuration cannot go on under another, as far as the two tell."""
    if not saved.env or not now.env or (saved.env, saved.env_kwargs) == (now.env, now.env_kwargs):
        return None
    then, here = (f"{c.env} {c.env_kwargs}" if c.env_kwargs else c.env for c in (saved, now))
    return f"it was saved with {then}, here is {here}"


def require_same_spaces(trained: Envs, given: Envs) -> None:
    """Raise if an agent cannot act in the given envs."""
    if trained.action_space != given.action_space:
        raise ConfigError(f"the agent's action space is {trained.action_space}, the given env's {given.action_space}")
    mine, its = (heads_of(envs.action_space, envs.action_heads) for envs in (trained, given))
    if (trained.action_heads is None) != (given.action_heads is None) or mine != its:
        raise ConfigError(
            f"the agent's action has the heads {', '.join(head.name for head in mine)}, the given env declares others: "
            f"{', '.join(head.name for head in its)}"
        )
    if _shapes(trained.layout) != _shapes(given.layout):
        raise ConfigError(
            f"the agent's observation space is {trained.observation_space}, the given env's {given.observation_space}"
        )


def _shapes(layout: Layout) -> list[Any]:
    """What an encoder depends on: bounds of numbers are not part of it, the number of codes is."""
    return [(x.name, x.shape, x.dtype, None if isinstance(x.space, Box) else x.space) for x in layout.leaves]


def require_run_dir(settings: RunConfig, loaded: bool) -> None:
    """Raise if training without a run directory leaves settings of the run without effect (P12).

    Those of an agent that was loaded belong to the run that saved it: only that it stops evaluating is worth a warning.
    """
    given = [f"run.{name}" for name in type(settings).model_fields if changed(settings, name)]
    evaluate = "; to evaluate without one, give callback=EvaluationCallback(…)" if settings.eval_every else ""
    reason = f"{', '.join(given)} cannot act without a run directory: give learn(…, run_dir=…){evaluate}"
    if loaded and settings.eval_every:
        warnings.warn(reason, SurefootWarning, stacklevel=3)
    if given and not loaded:
        raise ConfigError(reason)


def read_count(name: str, value: Any) -> int:
    """A positive whole number; one written as 1e5 counts."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if not number or value is True or not math.isfinite(value) or int(value) != value:
        raise ConfigError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ConfigError(f"{name} must be at least 1, got {value}")
    return int(value)


def _with_maker(env: EnvLike, config: Config) -> Config:
    """For an id or a callable: only an id can be written down."""
    if isinstance(env, str):
        if config.env not in ("", env):
            raise ConfigError(
                f"the configuration is for env = {config.env!r}, but {env!r} is given: change one of them"
            )
        return config.model_copy(update={"env": env})
    if config.env:
        raise ConfigError(
            f"the configuration is for env = {config.env!r}, but a callable is given: leave config.env empty, or give "
            f"PPO({config.env!r}, config=…)"
        )
    return config


def _with_instance(env: EnvLike, config: Config) -> Config:
    """For an instance: how it can be made again, if its spec tells."""
    recipe = recipe_of(env) if isinstance(env, gymnasium.Env | VectorEnv) else None
    if recipe is None or not _is_json(recipe.env_kwargs):
        recipe = Recipe("", {})
    if config.env_kwargs not in ({}, recipe.env_kwargs):
        raise ConfigError(
            f"env_kwargs = {config.env_kwargs!r} are for making an env, but the given {type(env).__name__} is made "
            "already: give them to gymnasium.make, or give PPO the id"
        )
    if config.env not in ("", recipe.env_id):
        raise ConfigError(
            f"the configuration is for env = {config.env!r}, but the given env is {recipe.env_id or 'one without id'}: "
            "leave config.env empty"
        )
    return config.model_copy(update={"env": recipe.env_id, "env_kwargs": recipe.env_kwargs})


def _require_json(setting: str, env_kwargs: dict[str, Any]) -> None:
    for name, value in env_kwargs.items():
        if not _is_json(value):
            raise ConfigError(
                f"{setting}[{name!r}] is a {type(value).__name__}, which cannot be saved with the agent: use numbers, "
                "text, lists and dicts, or make the env in a function that needs no arguments"
            )


def _is_json(value: Any) -> bool:
    try:
        jsontext.dumps(value)
    except (jsontext.InvalidJson, TypeError):
        return False
    return True


def require_device(config: Config) -> None:
    """Raise if there is no such device, or if it cannot compute in the precision that is asked for."""
    name = config.device
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        torch.Generator(device)  # of the meta device there are tensors, but no random numbers
    except Exception as error:  # each device has errors of its own
        reason = str(error).partition("\n")[0].partition(". ")[0]
        raise ConfigError(f"device = {name!r} is not there: use cpu, cuda or cuda:N ({reason})") from None
    if config.ppo.autocast is not None:
        require_bfloat16(device)


def require_bfloat16(device: torch.device) -> None:
    """Raise if a device has no arithmetic in bfloat16."""
    with_autocast = torch.amp.is_autocast_available(device.type)
    if not with_autocast or (device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False)):
        raise ConfigError(
            f'ppo.autocast = "bfloat16": the device {str(device)!r} has no bfloat16; leave ppo.autocast out or choose '
            "another device"
        )
