"""What is done with an agent that is trained: evaluated, attacked, recorded."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from surefoot.cli.common import load_agent, table
from surefoot.cli.options import parse_value, require_object
from surefoot.config import Config
from surefoot.config.market_presets import MARKET_ID
from surefoot.errors import ConfigError
from surefoot.train.trust import require_no_code_in_evaluation


def evaluate(arguments: argparse.Namespace) -> None:
    """``surefoot eval``."""
    if arguments.episodes is not None and arguments.episodes < 1:
        raise ConfigError(f"--episodes must be at least 1, got {arguments.episodes}")
    if (arguments.attack is None) != (arguments.epsilon is None):
        raise ConfigError("--attack and --epsilon go together: what is done, and how far")
    if arguments.fixed_features is not None and not arguments.attack:
        raise ConfigError("--fixed-features is for --attack: what an attack leaves alone")
    if arguments.attack:
        _evaluate_attacked(arguments)
        return
    with closing(load_agent(arguments)) as agent:
        env, env_kwargs = _evaluation_env(arguments, agent.config)
        result = agent.evaluate(
            arguments.episodes or _usual_episodes(agent.config, env_kwargs),
            arguments.seed,
            not arguments.stochastic,
            env=env or None,
            env_kwargs=env_kwargs,
        )
    summary = {
        "env": env or agent.config.env,
        "timesteps": agent.num_timesteps,
        "seed": arguments.seed,
    } | result.summary()
    span = _span(agent.config, env, env_kwargs)
    if arguments.json:
        print(json.dumps(summary | span | {"returns": list(result.returns), "lengths": list(result.lengths)}))
        return
    table(f"{summary['env']}: {len(result.returns)} episodes", summary | _span_in_words(span))


EPISODES = 20
"""Of ``surefoot eval``."""


def _usual_episodes(config: Config, env_kwargs: Mapping[str, Any]) -> int:
    """A span of a market is the same each time."""
    same_each_time = config.market.data and "span" in env_kwargs
    return config.run.eval_episodes if same_each_time else EPISODES


def _evaluation_env(arguments: argparse.Namespace, config: Config) -> tuple[str, dict[str, Any]]:
    """Id and arguments of the env to play in: those of the options, or else of the run's evaluations."""
    if arguments.env is None and arguments.env_kwargs is None:
        require_no_code_in_evaluation(config, str(arguments.run), arguments.trust_module)
        return config.run.eval_env, config.run.eval_env_kwargs
    env_kwargs = {} if arguments.env_kwargs is None else parse_value(arguments.env_kwargs)
    require_object("--env-kwargs", env_kwargs, arguments.env_kwargs)
    return arguments.env or "", env_kwargs


def _span(config: Config, env: str, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """For a market: which part of the data is played in, and what it was for the training."""
    span = (config.env_kwargs | dict(env_kwargs)).get("span")
    if config.env != MARKET_ID or env not in ("", MARKET_ID) or span is None:
        return {}
    splits = {"train": config.env_kwargs.get("span"), "validation": config.run.eval_env_kwargs.get("span")}
    named = None if "data" in env_kwargs else next((name for name, x in splits.items() if x == list(span)), None)
    return {"split": named, "span": list(span)}


def _span_in_words(span: Mapping[str, Any]) -> dict[str, Any]:
    if not span:
        return {}
    dates = " to ".join(str(moment) for moment in span["span"])
    return {"span": f"{span['split']}: {dates}" if span["split"] else dates}


def _evaluate_attacked(arguments: argparse.Namespace) -> None:
    from surefoot.train.attacked import evaluate_attacked

    with closing(load_agent(arguments)) as agent:
        env, env_kwargs = _evaluation_env(arguments, agent.config)
        episodes = arguments.episodes or _usual_episodes(agent.config, env_kwargs)
        found = evaluate_attacked(
            agent,
            arguments.attack,
            arguments.epsilon,
            episodes,
            arguments.seed,
            not arguments.stochastic,
            arguments.fixed_features,
            env=env or None,
            env_kwargs=env_kwargs,
        )
    fixed = agent.config.robust.fixed_features if arguments.fixed_features is None else arguments.fixed_features
    said = {"env": env or agent.config.env, "timesteps": agent.num_timesteps, "epsilon": arguments.epsilon}
    said["units"] = "normalized" if agent.config.ppo.normalize_observations else "raw"
    said["fixed_features"] = list(fixed)
    span = _span(agent.config, env, env_kwargs)
    if arguments.json:
        by_kind = {kind: result.summary() | {"returns": list(result.returns)} for kind, result in found.items()}
        print(json.dumps(said | span | {"seed": arguments.seed, "attacks": by_kind}))
        return
    returns = {kind: f"{result.mean:.2f} ± {result.std:.2f}" for kind, result in found.items()}
    in_words = {
        "epsilon": f"{arguments.epsilon:g} {'standard deviations' if said['units'] == 'normalized' else 'of the env'}",
        "fixed_features": ", ".join(fixed) or "none",
    }
    shown = {key: in_words.get(key, value) for key, value in said.items() if key != "units"}
    table(f"{said['env']}: {episodes} episodes", shown | _span_in_words(span) | returns)


def record(arguments: argparse.Namespace) -> None:
    """``surefoot record``."""
    from surefoot.train.recording import record as record_demonstrations

    with closing(load_agent(arguments)) as agent:
        arrays = record_demonstrations(
            agent, arguments.out, arguments.episodes, arguments.seed, not arguments.stochastic
        )
    said = {
        "out": str(arguments.out),
        "episodes": int(arrays["episode_start"].sum()),
        "steps": len(arrays["action"]),
        "mean_reward": float(arrays["reward"].sum() / arrays["episode_start"].sum()),
    }
    if arguments.json:
        print(json.dumps(said))
        return
    table(f"{agent.config.env}: demonstrations", said)
