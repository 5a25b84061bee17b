"""What each command does."""

from __future__ import annotations

import argparse
import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.cli.common import table
from surefoot.cli.options import collect_settings, swallowed_words
from surefoot.config import Config, from_dict, from_toml, merge
from surefoot.config.market_presets import MARKET_ID
from surefoot.config.presets import NAMED, PRESETS, preset
from surefoot.errors import CheckpointError, ConfigError, NoCheckpointError, RunError
from surefoot.output import say
from surefoot.train.trust import require_no_code, require_no_code_in_evaluation

if TYPE_CHECKING:
    from surefoot.policy.own_encoder import EncoderClass
    from surefoot.train.lock import RunLock
    from surefoot.train.ppo import PPO
    from surefoot.train.run import Run


def train(arguments: argparse.Namespace) -> None:
    """``surefoot train``: everything is checked before anything starts."""
    config = train_config(arguments)
    if config.market.data:
        config = _market_config(config)
    from surefoot.train.ppo import PPO
    from surefoot.train.run import Run

    run_dir = arguments.run_dir or _fresh_directory(config.env)
    agent = PPO(config.env, config=config, encoder=_encoder(arguments, config))
    _go(agent, partial(Run.create, run_dir, agent.config), arguments.quiet)


def _market_config(config: Config) -> Config:
    """With the arguments of its envs; says what is trained on, and on which dates."""
    from surefoot.train.market import plan_market

    planned = plan_market(config, evaluate=True)
    for line in planned.lines:
        say(line)
    return planned.config


def _encoder(arguments: argparse.Namespace, config: Config) -> EncoderClass | None:
    """The class that ``policy.encoder`` names, if a person named it: as an option, or its module as trusted."""
    from surefoot.policy.own_encoder import import_encoder
    from surefoot.train.setup import trusted_encoder

    name = config.policy.encoder
    if collect_settings(arguments).get("policy", {}).get("encoder"):
        return import_encoder(name)
    return trusted_encoder(name, arguments.trust_module) if name else None


def train_config(arguments: argparse.Namespace) -> Config:
    """Preset, then file, then options; later ones win."""
    given = collect_settings(arguments)
    from_file = from_toml(arguments.config) if arguments.config is not None else {}
    settings: dict[str, Any] = preset(arguments.preset) if arguments.preset else {}
    env = _env_named(arguments) or from_file.get("env") or settings.pop("env", None) or arguments.preset
    if not env:
        raise ConfigError(_no_env(arguments))
    if from_file and isinstance(env, str):  # what a person types is believed, what a file says is not
        named = "" if arguments.env else env
        kwargs = from_file.get("env_kwargs") if "env_kwargs" not in given else None
        given_there = kwargs if isinstance(kwargs, Mapping) else {}
        require_no_code(named, given_there, str(arguments.config), arguments.trust_module)
    if arguments.preset == "":
        settings = preset(env)
    if settings.get("env", env) != env:
        raise ConfigError(f"the preset {arguments.preset!r} is for {settings['env']}, not for {env}")
    if _names_market(from_file, given):
        from_file = _without_market_arguments(from_file, given)
    config = from_dict(merge(merge(settings, from_file), given | {"env": env}))
    if from_file:
        require_no_code_in_evaluation(config, str(arguments.config), arguments.trust_module, given.get("run", {}))
    return config


def _env_named(arguments: argparse.Namespace) -> str | None:
    env: str | None = arguments.env
    return MARKET_ID if env == "market" else env


def _names_market(*sources: Mapping[str, Any]) -> bool:
    return any(isinstance(part := x.get("market"), Mapping) and part.get("data") for x in sources)


def _without_market_arguments(from_file: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A file without what the section market becomes: the configuration of a run has both, and it is made anew."""
    if "env_kwargs" in given or "eval_env_kwargs" in given.get("run", {}):
        raise ConfigError("--env-kwargs and --run.eval-env-kwargs come from --market.… here: leave them out")
    run = from_file.get("run", {})
    kept = {key: value for key, value in from_file.items() if key != "env_kwargs"}
    if isinstance(run, Mapping):
        kept["run"] = {key: value for key, value in run.items() if key != "eval_env_kwargs"}
    return kept


def _no_env(arguments: argparse.Namespace) -> str:
    for name, word in swallowed_words(arguments):
        return f"say what to train on: {word!r} was read as a value of {name}; put ENV first: surefoot train {word} …"
    return "say what to train on: surefoot train ENV, for example surefoot train CartPole-v1"


def resume(arguments: argparse.Namespace) -> None:
    """``surefoot resume``: from the newest checkpoint that verifies, which no other process may change meanwhile."""
    from surefoot.train.lock import RunLock
    from surefoot.train.run import require_run

    require_run(arguments.run)
    lock = RunLock(arguments.run)
    try:
        _resume(arguments, lock)
    finally:
        lock.release()


def _resume(arguments: argparse.Namespace, lock: RunLock) -> None:
    from surefoot.train.checkpoint import from_snapshot
    from surefoot.train.demonstrations import at_another_place, without_demonstrations_place
    from surefoot.train.market import moved, without_place
    from surefoot.train.ppo import PPO
    from surefoot.train.run import Run, latest_checkpoint, read_config, require_unchanged
    from surefoot.train.schedule_span import require_learnable

    config = read_config(arguments.run)
    total = arguments.total_timesteps if arguments.total_timesteps is not None else config.total_timesteps
    config = moved(from_dict(config.model_dump() | {"total_timesteps": total}), arguments.data)
    config = at_another_place(config, arguments.demonstrations)
    require_no_code_in_evaluation(config, str(arguments.run), arguments.trust_module)
    try:
        found = latest_checkpoint(arguments.run)
    except NoCheckpointError as error:
        if not arguments.fresh:
            raise RunError(f"{error}; `surefoot resume {arguments.run} --fresh` starts from the beginning") from None
        say(f"{error}; starting from the beginning")
        require_no_code(config.env, config.env_kwargs, str(arguments.run), arguments.trust_module)
        agent = PPO(config.env, config=config, encoder=_encoder(arguments, config))
        _go(agent, partial(Run.restart, arguments.run, config, lock), arguments.quiet)
        return
    for path, reason in found.skipped:
        say(f"passed over {path}: {reason}")
    saved = from_snapshot(found.snapshot, found.manifest)
    named = arguments.demonstrations is not None
    placeless = [without_demonstrations_place(without_place(x), named) for x in (config, saved.config)]
    require_unchanged(arguments.run, *placeless)
    place = config.env_kwargs.get("data") if config.env_kwargs.get("fingerprint") else None
    kept = {"total_timesteps": total, "run": config.run, "imitation": config.imitation}
    config = moved(saved.config, place).model_copy(update=kept)
    agent = PPO.restore(saved._replace(config=config), trusted=arguments.trust_module)
    if agent.num_timesteps >= total:
        agent.close()
        say(f"the run has {agent.num_timesteps} of {total} env steps; give --total-timesteps to train longer")
        return
    require_learnable(agent.learner, total)
    agent.require_envs()
    resumed = agent.learner.resumed
    exactly = "exactly" if found.manifest.exact and (resumed is None or resumed.exact) else "not exactly"
    say(f"continuing {exactly} from {found.path} at step {agent.num_timesteps}")
    reopen = partial(Run.reopen, arguments.run, config, agent.num_timesteps, saved.extra, lock)
    _go(agent, reopen, arguments.quiet, saved.extra.get("callbacks"))


def inspect(arguments: argparse.Namespace) -> None:
    """``surefoot inspect``."""
    from surefoot.store import CheckpointStore
    from surefoot.train.run import CHECKPOINTS, read_config
    from surefoot.train.sinks import each_line

    config = read_config(arguments.run)
    store = CheckpointStore(arguments.run / CHECKPOINTS)
    checkpoints = [{"step": step} | _about_checkpoint(store.path_of(step)) for step in store.steps()]
    newest = deque(enumerate(each_line(arguments.run), 1), maxlen=1)
    n_lines, last = newest[0] if newest else (0, {})
    if arguments.json:
        print(json.dumps({"config": config.model_dump(mode="json"), "checkpoints": checkpoints, "last": last}))
        return
    about: dict[str, Any] = {
        "env": config.env,
        "goal": f"{config.total_timesteps} env steps",
        "critic": config.critic.kind,
        "seed": config.seed,
        "lines of metrics": n_lines,
    }
    about |= {f"checkpoint {entry['step']}": _in_words(entry) for entry in checkpoints}
    table(str(arguments.run), about)
    table("last metrics", last)


def _about_checkpoint(path: Path) -> dict[str, Any]:
    from surefoot.store import read_manifest

    try:
        manifest = read_manifest(path)
    except CheckpointError as error:
        return {"error": str(error)}
    size = sum(record.size for record in manifest.files.values())
    return {"exact": manifest.exact, "bytes": size, "versions": dict(manifest.versions)}


def _in_words(checkpoint: Mapping[str, Any]) -> str:
    if "error" in checkpoint:
        return str(checkpoint["error"])
    return f"{checkpoint['bytes']} bytes, {'exact' if checkpoint['exact'] else 'not exact'}"


def presets(arguments: argparse.Namespace) -> None:
    """``surefoot presets``."""
    del arguments
    for name, settings in (PRESETS | NAMED).items():
        flat = {k: v for k, v in settings.items() if k != "ppo"} | settings.get("ppo", {})
        print(f"{name}: " + ", ".join(f"{k}={v}" for k, v in flat.items()))


def demo(arguments: argparse.Namespace) -> None:
    """``surefoot demo``."""
    from surefoot.train.hedging_demo import demo as run_demo

    say(f"The picture is {run_demo(arguments.out, say, arguments.seed)}")


def _go(agent: PPO, open_run: Callable[[], Run], quiet: bool, callback_state: dict[str, Any] | None = None) -> None:
    """Train to the goal, evaluate, say where everything is."""
    from surefoot.train.callbacks import run_callbacks
    from surefoot.train.signals import Interrupted

    with closing(agent), closing(open_run()) as run:
        callbacks = run_callbacks(run.config.run, run.path)
        callbacks.load_state_dict(callback_state or {})
        say(f"training {run.config.env} to {run.config.total_timesteps} env steps in {run.path}")
        try:
            agent.train_to(run.config.total_timesteps, callbacks, not quiet, run)
        except Interrupted as stop:
            say(f"{stop}; {run.how_to_go_on}")
            raise
        last = agent.logger_values
        table("trained", {"env steps": agent.num_timesteps} | {k: last[k] for k in SHOWN if k in last})
        say(f"run saved in {run.path}; evaluate it with `surefoot eval {run.path}`")


SHOWN = (
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "train/explained_variance",
    "time/fps",
    "eval/best_mean_reward",
)


def _fresh_directory(env: str) -> Path:
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", env).strip("-.")
    number = 1
    while (path := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return path
