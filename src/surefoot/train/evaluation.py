"""In which envs an agent is evaluated, and how it acts there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv

from surefoot.algo.learner import Learner
from surefoot.config import Config
from surefoot.errors import ConfigError
from surefoot.evaluate.episodes import Act, Evaluation, Seen, play, require_counts
from surefoot.evaluate.together import play_together
from surefoot.rollout.make import (
    EnvLike,
    env_factory,
    make_evaluation_envs,
    make_group,
    offers_vector_env,
    own_n_envs,
    require_env,
    vector_evaluation_envs,
)
from surefoot.spaces import Array
from surefoot.train.setup import require_same_spaces
from surefoot.vector.group import EnvGroup
from surefoot.vector.gymnasium_vector import VectorEnvs
from surefoot.vector.interface import Envs


def evaluation_envs(
    trained: EnvLike | None, config: Config, env: EnvLike | None, env_kwargs: Mapping[str, Any], n_episodes: int
) -> Envs:
    """``env`` itself if it is made already, or envs made of it; None is others like the one that is ``trained`` in.

    ``env_kwargs`` go over those of training where the env is the same, and are all of them where it is another.
    """
    if env is not None:
        require_env(env)
    given = env if env is not None else trained
    if given is None:
        raise ConfigError("this agent was trained on an env that has no id: say evaluate(env=…)")
    if env_kwargs and own_n_envs(given) is not None:
        raise ConfigError(
            f"env_kwargs = {dict(env_kwargs)!r} are for making an env, but the {type(given).__name__} is made already: "
            "give evaluate(env=…) an id or a callable"
        )
    if isinstance(env, VectorEnv):
        return VectorEnvs(env)
    if isinstance(env, gymnasium.Env):
        return EnvGroup([env])
    if env is None or env is trained or (isinstance(env, str) and env == config.env):
        return make_evaluation_envs(given, {**config.env_kwargs, **env_kwargs}, n_episodes, config.vectorization)
    together = config.vectorization == "vector_entry_point" and offers_vector_env(env)
    return make_evaluation_envs(env, env_kwargs, n_episodes, "vector_entry_point" if together else "auto")


class EvaluationEnvs:
    """Where an agent is evaluated: in others like those it trains in, which are made once and kept, or in what it is
    given."""

    def __init__(self, trained: EnvLike | None, config: Config, learner: Learner) -> None:
        self._trained, self._config, self._learner = trained, config, learner
        self._kept: Envs | None = None

    @contextmanager
    def opened(
        self, n_episodes: int, env: EnvLike | None = None, env_kwargs: Mapping[str, Any] | None = None
    ) -> Iterator[Envs]:
        """Envs for so many episodes; those that are made of an ``env`` or of ``env_kwargs`` are closed in the end."""
        if env is not None and self._trains_in(env):
            env = None
        if env is None and not env_kwargs:
            yield self._like_training(n_episodes)
            return
        envs = evaluation_envs(self._trained, self._config, env, env_kwargs or {}, n_episodes)
        try:
            require_same_spaces(self._learner.envs, envs)
            yield envs
        finally:
            if env is None or own_n_envs(env) is None:  # else it has an owner
                envs.close()

    def single(self, n_envs: int) -> EnvGroup:
        """Single envs like those of training, for whoever plays one episode after the other; the caller closes them."""
        if self._trained is None:
            raise ConfigError("this agent was trained on an env that has no id: load it with PPO.load(path, env=…)")
        return make_group(env_factory(self._trained, self._config.env_kwargs), n_envs)

    def close(self) -> None:
        """Close those that are kept; they are made again when they are wanted."""
        if self._kept is not None:
            self._kept.close()
        self._kept = None

    def _like_training(self, n_episodes: int) -> Envs:
        """Of envs that step together the number is decided by that of the episodes."""
        kept = self._kept
        if kept is None or (isinstance(kept, VectorEnvs) and kept.n_envs != vector_evaluation_envs(n_episodes)):
            self.close()
            self._kept = kept = evaluation_envs(self._trained, self._config, None, {}, n_episodes)
        return kept

    def _trains_in(self, env: EnvLike) -> bool:
        """Whether evaluating in ``env`` itself would step a training env."""
        trained, envs = self._trained, self._learner.envs
        if isinstance(env, VectorEnv):
            return isinstance(trained, VectorEnv) and env.unwrapped is trained.unwrapped
        if not isinstance(env, gymnasium.Env):
            return False
        training: list[Any] = [trained] if isinstance(trained, gymnasium.Env) else []
        if isinstance(envs, EnvGroup):
            training += envs.envs
        elif isinstance(trained, VectorEnv):
            training += list(getattr(trained.unwrapped, "envs", ()))
        return any(env.unwrapped is other.unwrapped for other in training)


def evaluate(learner: Learner, envs: Envs, n_episodes: int, seed: int, deterministic: bool) -> Evaluation:
    """Play whole episodes: single envs by `play`, envs that step together by `play_together`."""
    require_counts(n_episodes, seed)
    require_same_spaces(learner.envs, envs)
    act, normalizes = acting(learner, envs.n_envs, seed, deterministic), learner.observations is not None
    if isinstance(envs, EnvGroup):
        return play(envs, act, n_episodes, seed, normalizes)
    return play_together(envs, act, n_episodes, seed, normalizes)


def acting(learner: Learner, n_envs: int, seed: int, deterministic: bool) -> Act:
    """The agent in ``n_envs`` envs, with a random stream, memory states and returns so far of its own."""
    sampler = torch.Generator(learner.device).manual_seed(seed)
    states: Array | None = None
    if learner.policy.state_size:
        states = np.zeros((n_envs, learner.policy.state_size), np.float32)

    context = None if learner.actor.context is None else learner.actor.context.anew(n_envs)

    def act(seen: Seen) -> Any:
        before = None if states is None else states[seen.rows]
        shown = None
        if context is not None:
            context.update_rows(seen.rows, seen.reward, seen.start)
            shown = context.columns()[seen.rows]
        actions, after = learner.actor(
            seen.observation, before, seen.start, seen.masks, sampler, deterministic, seen.step, seen.rows, shown
        )
        if states is not None:
            states[seen.rows] = after
        return actions

    return act
