"""A world in two forms: envs that step together, registered with a vector entry point, and single ones."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from surefoot.spaces import Array

TRAM, OWN_TRAM, ONLY_TOGETHER, ONLY_SINGLE = "Tram-v0", "surefoot/Tram-v0", "TramsOnly-v0", "TramCar-v0"
CAR, TRAMS = "vector.trams:TramCar", "vector.trams:Trams"


class TramCar(gymnasium.Env[Any, Any]):
    """A ride of ``length`` stops. A stop pays ``fare`` times its number if the action is 1."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 5, fare: float = 1.0) -> None:
        self._length, self._fare = length, fare
        self._stop = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._stop = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._stop += 1
        reward = self._fare * self._stop * float(action)
        return self._observation(), reward, False, self._stop == self._length, {"cost": 0.5, "is_success": True}

    def _observation(self) -> Array:
        return np.array([self._stop / self._length, 1.0], np.float32)


class Trams(VectorEnv[Any, Any, Any]):
    """The same rides, all in one call. With ``short`` a ride has only one stop, with a probability of a half, and every
    stop of a long one pays ``fare`` whatever is done."""

    made = 0

    def __init__(
        self,
        num_envs: int = 1,
        length: int = 5,
        fare: float = 1.0,
        short: bool = False,
        history: int = 0,
        mode: str = "SAME_STEP",
    ) -> None:
        Trams.made += 1
        self.num_envs, self._length, self._fare, self._short = num_envs, length, fare, short
        self.metadata = {"autoreset_mode": AutoresetMode[mode]}
        self.single_observation_space, self.single_action_space = TramCar.observation_space, TramCar.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._random = np.random.default_rng(0)
        self._stop, self._last = np.zeros(num_envs, np.int64), np.full(num_envs, length)
        self._history = np.zeros((num_envs, history))
        self._waits = np.zeros(num_envs, np.bool_)
        self.closed_times = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        which = np.ones(self.num_envs, np.bool_)
        if options is not None:
            which = options["reset_mask"]
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._begin(which)
        self._waits[:] = False
        return self._observation(), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        rides = ~self._waits
        self._begin(self._waits)
        self._stop += rides
        pays = np.where(self._short, self._last > 1, self._stop * actions)
        reward = self._fare * pays * rides
        if self._history.size:
            self._history[:] = np.roll(self._history, 1, axis=1)
            self._history[:, 0] = self._random.random(self.num_envs)
            reward = reward + self._history.mean(1)
        ended = (self._stop >= self._last) & rides
        info = {"cost": np.full(self.num_envs, 0.5), "is_success": ended, "_is_success": ended}
        mode = self.metadata["autoreset_mode"]
        if mode is AutoresetMode.SAME_STEP and ended.any():
            info["final_obs"] = self._observation()
            self._begin(ended)
        self._waits = ended if mode is AutoresetMode.NEXT_STEP else self._waits
        return self._observation(), reward, np.zeros(self.num_envs, np.bool_), ended, info

    def close_extras(self, **settings: Any) -> None:
        self.closed_times += 1

    def state_dict(self) -> dict[str, Any]:
        return {
            "random": self._random.bit_generator.state,
            "stop": self._stop,
            "last": self._last,
            "history": self._history,
            "waits": self._waits,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._random.bit_generator.state = state["random"]
        self._stop, self._last = state["stop"], state["last"]
        self._history, self._waits = state["history"], state["waits"]

    def _begin(self, which: Array) -> None:
        self._stop[which] = 0
        if self._short:
            self._last[which] = np.where(self._random.random(int(which.sum())) < 0.5, 1, self._length)

    def _observation(self) -> Array:
        return np.stack([self._stop / self._length, np.ones(self.num_envs)], 1).astype(np.float32)


def register_trams() -> None:
    """Under ids of each kind."""
    for name in (TRAM, OWN_TRAM):
        if name not in gymnasium.registry:
            gymnasium.register(name, CAR, vector_entry_point=TRAMS)
    if ONLY_TOGETHER not in gymnasium.registry:
        gymnasium.register(ONLY_TOGETHER, vector_entry_point=TRAMS)
    if ONLY_SINGLE not in gymnasium.registry:
        gymnasium.register(ONLY_SINGLE, CAR)
