"""Environments whose episodes are known in advance, one by one and as vector envs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from surefoot.vector.group import EnvGroup
from surefoot.vector.gymnasium_vector import VectorEnvs
from surefoot.vector.interface import Envs

Array = np.ndarray[Any, Any]
Kind = Literal["box", "dict", "tuple"]
KINDS: tuple[Kind, ...] = ("box", "dict", "tuple")


class Ending(NamedTuple):
    """An episode: how many steps it has, and how it ends."""

    length: int
    terminated: bool
    truncated: bool


SCRIPT = (
    Ending(3, True, False),
    Ending(5, False, True),
    Ending(1, False, True),
    Ending(4, True, True),
    Ending(1, True, False),
    Ending(6, False, True),
)
"""Both endings, alone and together, and episodes of one step; repeated for ever."""


def reward_at(number: int, episode: int, step: int) -> float:
    """What step ``step`` of an episode pays."""
    return 0.5 * step - 0.25 * episode + number + 1.0


def observation_at(kind: Kind, number: int, episode: int, step: int) -> Any:
    """The observation before step ``step``; after the last step it is the final one."""
    place = np.array([number / 4, episode / 8], np.float32)
    if kind == "box":
        return np.array([*place, step / 8], np.float32)
    if kind == "dict":
        return {"clock": np.int64(step), "deep": {"place": place}}
    return (place, np.int64(step))


def located(kind: Kind, leaves: Mapping[str, Any]) -> tuple[int, int, int]:
    """The inverse of `observation_at` on the leaves of one row."""
    if kind == "box":
        number, episode, step = (float(x) for x in leaves["obs"])
        return round(number * 4), round(episode * 8), round(step * 8)
    place, clock = ("deep/place", "clock") if kind == "dict" else ("0", "1")
    number, episode = (float(x) for x in leaves[place])
    return round(number * 4), round(episode * 8), int(leaves[clock])


def observation_space(kind: Kind) -> spaces.Space[Any]:
    """The space of `observation_at`."""
    place, clock = spaces.Box(-100.0, 100.0, (2,), np.float32), spaces.Discrete(16)
    if kind == "box":
        return spaces.Box(-100.0, 100.0, (3,), np.float32)
    if kind == "dict":
        return spaces.Dict({"clock": clock, "deep": spaces.Dict({"place": place})})
    return spaces.Tuple((place, clock))


class Scripted(gymnasium.Env[Any, Any]):
    """Plays a script, whatever the action. Each step costs ``cost``; the last of an episode says is_success."""

    def __init__(
        self,
        number: int = 0,
        script: Sequence[Ending] = SCRIPT,
        kind: Kind = "box",
        reward_scale: float = 1.0,
        cost: float | None = None,
    ) -> None:
        self._number, self._script, self._kind = number, script, kind
        self._reward_scale, self._cost = reward_scale, cost
        self._episode, self._step = -1, 0
        self.observation_space = observation_space(kind)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._episode, self._step = self._episode + 1, 0
        return self._observe(), {"cost": 1e6} if self._cost is not None else {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ending = self._script[self._episode % len(self._script)]
        reward = self._reward_scale * reward_at(self._number, self._episode, self._step)
        self._step += 1
        done = self._step >= ending.length
        info: dict[str, Any] = {} if self._cost is None else {"cost": self._cost}
        if done:
            info["is_success"] = self._episode % 2 == 0
        return self._observe(), reward, done and ending.terminated, done and ending.truncated, info

    def _observe(self) -> Any:
        return observation_at(self._kind, self._number, self._episode, self._step)


BASE = 1.7e9
"""Seconds since 1970. float32 tells apart only what is 128 s from each other there."""


class Ticking(gymnasium.Env[Any, Any]):
    """Shows 1.7e9 s and 10 s later in turn, and pays for telling which; truncated after six steps, on the former.

    The space has ``dtype``; observations after the first have ``later`` if that is given.
    """

    def __init__(self, dtype: Any = np.float64, later: Any = None) -> None:
        self.observation_space = spaces.Box(0, 2**40, (1,), dtype)
        self.action_space = spaces.Discrete(2)
        self._later = dtype if later is None else later
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return np.array([BASE], self.observation_space.dtype), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self._steps % 2)
        self._steps += 1
        observation = np.array([BASE + 10 * (self._steps % 2)], self._later)
        return observation, reward, False, self._steps == 6, {}

    def state_dict(self) -> dict[str, Any]:
        """How far the episode is."""
        return {"steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there."""
        self._steps = state["steps"]


class Strict(gymnasium.Env[Any, Any]):
    """Takes only what its action space contains; that Gymnasium warns counts as no."""

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if not self.action_space.contains(action):
                raise ValueError(f"{action!r} is not in {self.action_space}")
        return np.zeros(1, np.float32), 0.0, False, False, {}


MODES = {
    "next-step": AutoresetMode.NEXT_STEP,
    "same-step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}
SOURCES = ("group", *MODES)
Factory = Callable[[], gymnasium.Env[Any, Any]]


def open_envs(source: str, factories: Sequence[Factory]) -> Envs:
    """The same envs, stepped singly or by a vector env that resets in one of three ways."""
    if source == "group":
        return EnvGroup([make() for make in factories])
    return VectorEnvs(SyncVectorEnv(list(factories), autoreset_mode=MODES[source]))


class Clockwork(VectorEnv[Array, Array, Array]):
    """A vector env written as arrays: all envs count to ``length`` and are then truncated, SAME_STEP.

    Like fast vector envs it writes into the same buffers in every step. Infos are of the kinds that such envs give: a
    number for all envs, an array of no axes, an array of another length.
    """

    def __init__(self, num_envs: int = 2, length: int = 3) -> None:
        self.num_envs, self._length = num_envs, length
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(-100.0, 100.0, (2,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = spaces.Discrete(2)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._clock = 0
        self._observation = np.zeros((num_envs, 2), np.float32)
        self._final = np.zeros((num_envs, 2), np.float32)
        self.extra: dict[str, Any] = {}
        """Added to every info."""
        self.gives_final = True
        self.final: Any = None
        """Given in place of the final observations, if not None."""

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        del seed, options
        self._clock = 0
        self._write(self._observation)
        return self._observation, {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        self._clock += 1
        done = self._clock % self._length == 0
        info = dict(self.extra)
        if done and self.gives_final:
            self._write(self._final)
            info["final_obs"] = self._final if self.final is None else self.final
        self._write(self._observation)
        if done:
            self._observation[:, 1] = 0.0
        ended = np.full(self.num_envs, done)
        return self._observation, np.ones(self.num_envs), np.zeros(self.num_envs, np.bool_), ended, info

    def _write(self, buffer: Array) -> None:
        buffer[:, 0] = np.arange(self.num_envs)
        buffer[:, 1] = self._clock
