"""`PPO`: the whole library behind one object."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surefoot.algo.kl_penalty import KLPenalty
from surefoot.algo.learner import Learner
from surefoot.algo.trainer_state import ScheduleSpan
from surefoot.config import Config, config_hash, nested
from surefoot.errors import ConfigError, SurefootWarning
from surefoot.evaluate.episodes import Evaluation
from surefoot.output import say
from surefoot.policy.own_encoder import EncoderClass
from surefoot.risk.build import require_tail
from surefoot.rollout.make import EnvLike, make_envs, own_n_envs
from surefoot.spaces import Array, row_of
from surefoot.store import read_checkpoint, write_checkpoint
from surefoot.train.callbacks import CallbackLike, CallbackList, as_callback, run_callbacks
from surefoot.train.checkpoint import Saved, from_snapshot, on_this_device, reading, require_like, to_snapshot, versions
from surefoot.train.evaluation import EvaluationEnvs, evaluate
from surefoot.train.footprint import explaining_memory, require_memory
from surefoot.train.inputs import read_episode_return, read_observation, read_starts, read_state
from surefoot.train.loop import train
from surefoot.train.progress import Silent, open_display
from surefoot.train.run import Run, require_no_run
from surefoot.train.schedule_span import span_schedules
from surefoot.train.setup import (
    adopted,
    configure,
    flat_names,
    other_env,
    overridden,
    read_count,
    require_device,
    require_run_dir,
    require_same_spaces,
    require_trainable,
    settled,
    trusted_encoder,
    with_encoder_by_name,
    with_feature_indices,
)
from surefoot.train.signals import Interrupted
from surefoot.train.trust import require_no_code, require_no_code_in_evaluation
from surefoot.vector.described import DescribedEnvs
from surefoot.vector.interface import Envs

POLICY_NAMES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy")


class PPO:
    """Proximal policy optimization for any Gymnasium environment.

    ``env`` is an id, a callable that makes an env, an env, or a vector env. Settings of the algorithm are keyword
    arguments; other sections are dicts::

        agent = PPO("CartPole-v1", n_envs=8, seed=0, n_steps=256, policy=dict(hidden_sizes=(64, 64)))
        agent.learn(100_000, progress_bar=True)
        print(agent.evaluate(20, seed=1).mean)
    """

    def __init__(
        self,
        env: EnvLike,
        *misplaced: Any,
        config: Config | None = None,
        encoder: EncoderClass | None = None,
        **settings: Any,
    ) -> None:
        """``encoder`` is the class that ``config.policy.encoder`` names; among settings, give it as policy=dict(…)."""
        if misplaced or (isinstance(env, str) and env in POLICY_NAMES):
            raise ConfigError(
                f"the env comes first: PPO(env, …), and settings have names; the network is set by policy=dict(…), not "
                f"{env!r}"
            )
        if config is not None and settings:
            raise ConfigError(f"give either config or single settings, not both (got {', '.join(settings)})")
        if config is None:
            if encoder is not None:
                raise ConfigError("give the encoder as policy=dict(encoder=…)")
            chosen, encoder = configure(env, settings)
        else:
            chosen = settled(env, config)
            if bool(chosen.policy.encoder) != (encoder is not None):
                raise ConfigError(_no_class(chosen.policy.encoder or "module:Class"))
        self._assemble(env, chosen, make_envs_of(env, chosen), encoder)
        spans = "total_timesteps" in chosen.model_fields_set
        self.learner.schedules = ScheduleSpan(chosen.total_timesteps if spans else None)

    def _assemble(self, env: EnvLike | None, config: Config, envs: Envs, encoder: EncoderClass | None = None) -> None:
        """Around envs that are made, or only described."""
        self._env = env
        try:
            self.config = config = with_feature_indices(config, envs)
            if not isinstance(envs, DescribedEnvs):
                require_memory(config, envs.layout)
            with explaining_memory(config):
                self.learner = Learner(config, envs, encoder)
        except BaseException:
            if env is None or own_n_envs(env) is None:  # what was made here, workers among it, has no other owner
                envs.close()
            raise
        self.logger_values: dict[str, float] = {}
        self._logged: dict[str, float] = {}
        self.evaluations = EvaluationEnvs(env, config, self.learner)
        self._sampler = torch.Generator(self.learner.device).manual_seed(config.seed)
        self._saved_config: Config | None = None
        """Of a loaded agent whose open episodes wait for envs."""
        self._require_trust: Callable[[], None] = lambda: None
        """Raises if a checkpoint names code to evaluate in, and the caller does not."""

    @property
    def num_timesteps(self) -> int:
        """Env steps so far."""
        return self.learner.timesteps

    @property
    def envs(self) -> Envs:
        """The training environments."""
        return self.learner.envs

    def learn(
        self,
        total_timesteps: int,
        callback: CallbackLike = None,
        progress_bar: bool = False,
        reset_num_timesteps: bool = False,
        run_dir: str | Path | None = None,
    ) -> PPO:
        """Train that many env steps more, rounded up to whole rollouts.

        Schedules span the first call, or the setting ``total_timesteps``; later calls keep their end values, unless
        ``reset_num_timesteps`` counts env steps from 0 and begins schedules anew. With ``run_dir``, metrics and
        checkpoints are written there, the evaluations of the run's settings are made, and Ctrl-C saves before it stops.
        Without it, such settings are refused.
        """
        count = read_count("total_timesteps", total_timesteps)
        if run_dir is None:
            require_run_dir(self.config.run, loaded=self._saved_config is not None)
        self.require_envs()
        if reset_num_timesteps:
            self.learner.restart_schedules()
        if run_dir is not None:
            self._require_trust()
        target = self.num_timesteps + count
        callbacks = as_callback(callback)
        if run_dir is None:
            self.train_to(target, callbacks, progress_bar, None)
            return self
        run = Run.create(Path(run_dir), self.config.model_copy(update={"total_timesteps": target}))
        own = run_callbacks(run.config.run, run.path)
        try:
            self.train_to(target, CallbackList([*own.callbacks, *callbacks.callbacks]), progress_bar, run)
        except Interrupted as stop:
            say(f"{stop}; {run.how_to_go_on}")
            raise
        finally:
            run.close()
        return self

    def train_to(self, target: int, callback: CallbackLike, progress_bar: bool, run: Run | None) -> None:
        """Train until ``target`` env steps in all."""
        self.require_envs()
        span_schedules(self.learner, target)
        require_tail(self.config.risk, target)
        if self.learner.risk is not None and (progress_bar or run is not None):
            say(f"risk.kind = {self.config.risk.kind}: {self.learner.risk.summary}")
        display = open_display(self.num_timesteps, target) if progress_bar else Silent()
        with _threads(self.config.threads):
            train(self, target, as_callback(callback), display, run)

    def require_envs(self) -> None:
        """Make the training envs of a loaded agent that has none yet, and check that it can be trained in them."""
        require_trainable(self.config)
        for term in self.learner.terms:
            term.prepare()
        if not isinstance(self.envs, DescribedEnvs):
            return
        if self._env is None:
            raise ConfigError("this agent was trained on an env that has no id: load it with PPO.load(path, env=…)")
        require_memory(self.config, self.envs.layout)
        envs = make_envs_of(self._env, self.config)
        try:
            require_same_spaces(self.envs, envs)
        except BaseException:
            envs.close()
            raise
        self._attach(envs)

    def _attach(self, envs: Envs, stacklevel: int = 4) -> None:
        """Go on in these envs; say so if it cannot be exactly."""
        self.learner.attach(envs, None if self._saved_config is None else other_env(self._saved_config, self.config))
        resumed = self.learner.resumed
        if resumed is not None and not resumed.exact:
            warnings.warn(
                f"the agent goes on with new episodes: {resumed.reason}", SurefootWarning, stacklevel=stacklevel
            )

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
        action_masks: Any = None,
        episode_return: Any = None,
    ) -> tuple[Any, Any]:
        """Action for one observation or a batch of them, and the memory state (None without memory).

        ``action_masks`` is an array of legal actions or a dict of such by head, with one row for each observation.
        ``episode_return`` is the sum of the rewards of the episode so far, which a policy with ``risk.observe_return``
        sees; for a discounted limit the pair of that discounted sum and of the discount of the next reward.
        """
        normalizes = self.learner.observations is not None
        parts, single = read_observation(self.envs.layout, self.envs.observation_space, obs, normalizes)
        n_rows = len(next(iter(parts.values())))
        masks = None if action_masks is None else self._read_masks(action_masks, n_rows, single)
        before = read_state(state, n_rows, self.learner.policy.state_size)
        starts = read_starts(episode_start, n_rows)
        context = read_episode_return(episode_return, n_rows, self.learner.actor.context)
        actions, state = self.learner.actor(parts, before, starts, masks, self._sampler, deterministic, context=context)
        return (row_of(actions, 0) if single else actions), state

    def evaluate(
        self,
        n_episodes: int = 20,
        seed: int = 0,
        deterministic: bool = True,
        env: EnvLike | Envs | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> Evaluation:
        """Play whole episodes on separate envs; training is not disturbed.

        ``env`` is what `PPO` takes; without it, or if it is the env that the agent trains in, others like that are
        made. ``env_kwargs`` are arguments of the env; where it is the same as in training, they go over those of
        training. With single envs episode i starts from seed + i. Envs that step together (a vector env, or an id made
        by its vector entry point) are started from one seed, and each plays an equal share of the episodes.
        """
        opened = nullcontext(env) if isinstance(env, Envs) else self.evaluations.opened(n_episodes, env, env_kwargs)
        with opened as envs, _threads(self.config.threads):
            return evaluate(self.learner, envs, n_episodes, seed, deterministic)

    def _read_masks(self, given: Any, n_rows: int, single: bool) -> Array:
        """Masks of a caller as flags [n_rows, M]."""
        if isinstance(given, Mapping):
            rows: Any = {name: np.asarray(part)[None] if single else part for name, part in given.items()}
        else:
            rows = np.atleast_2d(np.asarray(given))
        return self.envs.mask_form.read(rows, n_rows, "action_masks, the mask given to predict,")

    def save(self, path: str | Path) -> Path:
        """Write the agent to a directory: weights, optimizer, normalizers, schedules, random streams."""
        state = self.learner.state_dict()
        return write_checkpoint(
            path,
            to_snapshot(state, self.config, self.envs),
            exact=state.exact,
            config_hash=config_hash(self.config),
            versions=versions(),
        )

    @classmethod
    def load(cls, path: str | Path, env: EnvLike | None = None, **overrides: Any) -> PPO:
        """Read an agent; ``overrides`` are settings that shall be others from now on.

        Acting needs no env. `learn` goes on where the agent stopped, in ``env`` or else in the env of its
        configuration, whose spaces must be the same; exactly if the env's state fits, and otherwise with new episodes,
        which a warning says.
        """
        require_no_run(Path(path))
        return cls.restore(from_snapshot(*read_checkpoint(path)), env, overrides)

    @classmethod
    def restore(
        cls,
        saved: Saved,
        env: EnvLike | None = None,
        overrides: dict[str, Any] | None = None,
        trusted: Collection[str] = (),
    ) -> PPO:
        """An agent as it was saved. ``trusted`` names modules that an env of the configuration may be imported from."""
        settings, encoder = with_encoder_by_name(overrides or {})
        config = overridden(saved.config, settings) if settings else saved.config
        if encoder is None and config.policy.encoder:
            encoder = trusted_encoder(config.policy.encoder, trusted)
        if encoder is None and config.policy.encoder:
            raise ConfigError(_no_class(config.policy.encoder))
        if env is None and config.env:
            require_no_code(config.env, config.env_kwargs, "the checkpoint", trusted)
        config = adopted(env, config)
        require_device(config)
        agent = cls.__new__(cls)
        if env is not None or saved.spaces is None:
            agent._start_with_envs(saved, config.env if env is None else env, config, encoder)
        else:
            described = DescribedEnvs(*saved.spaces, config.n_envs)
            agent._load(saved, config.env or None, config, described, encoder)
        if "ppo.kl_coef" in flat_names(nested(settings)):  # it may have adapted, and another is asked for
            for term in agent.learner.terms:
                if isinstance(term, KLPenalty):
                    term.restart()
        named = tuple(dict(settings.get("run", {})))
        agent._require_trust = partial(require_no_code_in_evaluation, config, "the checkpoint", trusted, named)
        return agent

    def _start_with_envs(self, saved: Saved, env: EnvLike, config: Config, encoder: EncoderClass | None) -> None:
        """Make the envs first: they are given, or an older format does not say its spaces."""
        if env == "":
            raise ConfigError("this agent was trained on an env that has no id: load it with PPO.load(path, env=…)")
        envs = make_envs_of(env, config)
        try:
            spaces = (envs.observation_space, envs.action_space, envs.action_heads)
            described = DescribedEnvs(*(saved.spaces or spaces), config.n_envs)
            require_same_spaces(described, envs)
            config = with_feature_indices(config, envs)
            self._load(saved, env, config, described, encoder)
            self._attach(envs, stacklevel=5)
        except BaseException:
            if own_n_envs(env) is None:
                envs.close()
            raise

    def _load(
        self,
        saved: Saved,
        env: EnvLike | None,
        config: Config,
        described: DescribedEnvs,
        encoder: EncoderClass | None,
    ) -> None:
        """An agent that can act; nothing of the size that the configuration says is made before the weights show it."""
        with reading():
            require_like(saved, config, described, encoder)
            self._assemble(env, config, described, encoder)
            moved = saved.config.device.partition(":")[0] != self.learner.device.type
            self.learner.load_state_dict(on_this_device(saved.state, self.learner) if moved else saved.state)
            self._saved_config = saved.config

    def log(self, metrics: Mapping[str, float]) -> None:
        """Add metrics to the line that is logged after this update."""
        self._logged |= metrics

    def take_logged(self) -> dict[str, float]:
        """The line of metrics collected since the last call, also kept in `logger_values`."""
        line, self._logged = self._logged, {}
        self.logger_values |= line
        return line

    def close(self) -> None:
        """Close the environments."""
        self.learner.envs.close()
        self.evaluations.close()


def _no_class(name: str) -> str:
    return (
        f"policy.encoder = {name!r} is a class of yours, which a configuration or checkpoint only names: give it with "
        f"policy=dict(encoder={name.rpartition(':')[2]}), or on the command line with --policy.encoder and "
        f"--trust-module {name.partition(':')[0]}"
    )


def make_envs_of(env: EnvLike, config: Config) -> Envs:
    """The training envs of a configuration."""
    return make_envs(env, config.n_envs, config.env_kwargs, config.workers, config.worker_timeout, config.vectorization)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Torch threads within a block; the caller's setting comes back."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
