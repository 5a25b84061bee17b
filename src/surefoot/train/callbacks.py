"""Hooks into training, and the ready-made ones.

A callback sees the agent at four moments. Returning False from `on_rollout` or `on_update` stops training there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.algo.learner import IterationRecord
from surefoot.config.schema import RunConfig
from surefoot.errors import ConfigError
from surefoot.evaluate.episodes import Evaluation
from surefoot.rollout.buffer import Rollout
from surefoot.rollout.make import EnvLike
from surefoot.train.run import BEST
from surefoot.vector.interface import Envs

if TYPE_CHECKING:
    from surefoot.train.ppo import PPO


class Callback:
    """Does nothing; override what you need. State that must survive a resume goes through `state_dict` (as JSON)."""

    def on_start(self, agent: PPO) -> None:
        """Before the first rollout."""

    def on_rollout(self, agent: PPO, rollout: Rollout) -> bool | None:
        """After a rollout, before its update. False stops without the update."""

    def on_update(self, agent: PPO, record: IterationRecord) -> bool | None:
        """After an update. False stops."""

    def on_end(self, agent: PPO) -> None:
        """When training ends, also after an error."""

    def state_dict(self) -> dict[str, Any]:
        """What to save."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""


class FunctionCallback(Callback):
    """Calls a function with (agent, record) after each update."""

    def __init__(self, function: Callable[[PPO, IterationRecord], bool | None]) -> None:
        self._function = function

    def on_update(self, agent: PPO, record: IterationRecord) -> bool | None:
        return self._function(agent, record)


class Every:
    """Answers True once for each ``interval`` env steps that have passed."""

    def __init__(self, interval: int, last: int = 0) -> None:
        if interval < 1:
            raise ConfigError(f"an interval of {interval} env steps is not positive")
        self.interval, self.last = interval, last

    def due(self, timesteps: int) -> bool:
        """Whether a new interval has begun since the last True."""
        if timesteps // self.interval > self.last // self.interval:
            self.last = timesteps
            return True
        return False


class EvaluationCallback(Callback):
    """Evaluates on a separate env with fixed seeds; keeps the best model; stops when it no longer improves.

    Logs ``eval/mean_reward`` and others. With ``best_path`` the best agent so far is saved there, normalizers included;
    with ``patience`` training stops after so many evaluations without a better mean. ``env`` and ``env_kwargs`` are
    those of `PPO.evaluate`; without them another env like the one that is trained in.
    """

    def __init__(
        self,
        every: int,
        n_episodes: int = 20,
        seed: int = 1_000_000,
        best_path: str | Path | None = None,
        patience: int = 0,
        deterministic: bool = True,
        env: EnvLike | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value, least in (("n_episodes", n_episodes, 1), ("seed", seed, 0), ("patience", patience, 0)):
            if value < least:
                raise ConfigError(f"{name} of an evaluation must be at least {least}, got {value}")
        self._every = Every(every)
        self._n_episodes, self._seed, self._deterministic = n_episodes, seed, deterministic
        self._best_path, self._patience = best_path, patience
        self._env, self._env_kwargs = env, env_kwargs
        self._envs: Envs | None = None
        self._opened = ExitStack()
        """What was given, while training goes on."""
        self.best = -math.inf
        self.without_gain = 0
        self.last: Evaluation | None = None

    def on_start(self, agent: PPO) -> None:
        # An env that cannot be made, or does not fit, is better known now.
        opened = agent.evaluations.opened(self._n_episodes, self._env, self._env_kwargs)
        envs = self._opened.enter_context(opened)
        self._envs = None if self._env is None and not self._env_kwargs else envs
        self._every.last = agent.num_timesteps

    def on_update(self, agent: PPO, record: IterationRecord) -> bool | None:
        if not self._every.due(agent.num_timesteps):
            return None
        self.last = agent.evaluate(self._n_episodes, seed=self._seed, deterministic=self._deterministic, env=self._envs)
        agent.log({f"eval/{key}": value for key, value in self.last.summary().items()})
        if self.last.mean > self.best:
            self.best, self.without_gain = self.last.mean, 0
            if self._best_path is not None:
                agent.save(self._best_path)
        else:
            self.without_gain += 1
        agent.log({"eval/best_mean_reward": self.best})
        return False if self._patience and self.without_gain >= self._patience else None

    def on_end(self, agent: PPO) -> None:
        self._opened.close()
        self._envs = None

    def state_dict(self) -> dict[str, Any]:
        best = None if math.isinf(self.best) else self.best
        return {"best": best, "without_gain": self.without_gain, "last": self._every.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = -math.inf if state["best"] is None else float(state["best"])
        self.without_gain, self._every.last = int(state["without_gain"]), int(state["last"])


class CheckpointCallback(Callback):
    """Saves the agent below a directory every ``every`` env steps, under the number of steps."""

    def __init__(self, every: int, directory: str | Path) -> None:
        self._every, self._directory = Every(every), Path(directory)

    def on_start(self, agent: PPO) -> None:
        self._every.last = agent.num_timesteps

    def on_update(self, agent: PPO, record: IterationRecord) -> None:
        if self._every.due(agent.num_timesteps):
            agent.save(self._directory / f"{agent.num_timesteps:012d}")


class CallbackList(Callback):
    """Several callbacks as one; all are called, and one that says stop is enough."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self.callbacks = list(callbacks)

    def on_start(self, agent: PPO) -> None:
        for callback in self.callbacks:
            callback.on_start(agent)

    def on_rollout(self, agent: PPO, rollout: Rollout) -> bool | None:
        answers = [callback.on_rollout(agent, rollout) for callback in self.callbacks]
        return False if any(answer is False for answer in answers) else None

    def on_update(self, agent: PPO, record: IterationRecord) -> bool | None:
        answers = [callback.on_update(agent, record) for callback in self.callbacks]
        return False if any(answer is False for answer in answers) else None

    def on_end(self, agent: PPO) -> None:
        for callback in self.callbacks:
            callback.on_end(agent)

    def state_dict(self) -> dict[str, Any]:
        return {str(i): callback.state_dict() for i, callback in enumerate(self.callbacks)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for i, callback in enumerate(self.callbacks):
            if str(i) in state:
                callback.load_state_dict(state[str(i)])


CallbackLike = Callback | Callable[..., bool | None] | Iterable[Callback] | None


def as_callback(given: CallbackLike) -> CallbackList:
    """None, a callback, a function (agent, record), or several of them."""
    if given is None:
        return CallbackList([])
    if isinstance(given, CallbackList):
        return given
    if isinstance(given, Callback):
        return CallbackList([given])
    if isinstance(given, type):
        raise ConfigError(f"callback = {given.__name__} is a class: give an instance, {given.__name__}(…)")
    if callable(given):
        return CallbackList([FunctionCallback(given)])
    items: Any = given
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise ConfigError(f"callback must be a Callback, a function (agent, record), or a list of them, got {given!r}")
    return CallbackList([callback for item in items for callback in as_callback(item).callbacks])


def run_callbacks(settings: RunConfig, directory: Path) -> CallbackList:
    """What the configuration of a run asks for: evaluations, the best agent, the stop when it no longer improves."""
    if not settings.eval_every:
        return CallbackList([])
    return CallbackList(
        [
            EvaluationCallback(
                settings.eval_every,
                settings.eval_episodes,
                best_path=directory / BEST,
                patience=settings.patience,
                env=settings.eval_env or None,
                env_kwargs=settings.eval_env_kwargs,
            )
        ]
    )
