"""Environments for tests of worker processes: a rich one, one that fails on command, one that fails by chance."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Array = np.ndarray[Any, Any]


class Rich(gymnasium.Env[dict[str, Any], Array]):
    """Every kind of observation and info; episodes of random length that terminate, are truncated, or both."""

    metadata = {"render_modes": []}  # noqa: RUF012  # gymnasium declares it on the instance

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {
                "vector": spaces.Box(-np.inf, np.inf, (3,), np.float64),
                "nested": spaces.Dict({"class": spaces.Discrete(5), "bits": spaces.MultiBinary(4)}),
                "image": spaces.Box(0, 255, (4, 5, 3), np.uint8),
            }
        )
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self._last: Array = np.zeros(2, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        self._last = np.zeros(2, np.float32)
        return self._observe(), {}

    def step(self, action: Array) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        reward = float(action.sum() - self._last.sum() + self.np_random.normal())
        self._last = action  # kept without a copy, as envs do
        self._steps += 1
        terminated, truncated = bool(self.np_random.random() < 0.05), bool(self.np_random.random() < 0.05)
        info: dict[str, Any] = {}
        if self.np_random.random() < 0.5:
            info = {"cost": self.np_random.random(), "array": self.np_random.normal(size=3), "pair": (1, "a")}
        if terminated or truncated:
            info["is_success"] = terminated
        return self._observe(), reward, terminated, truncated, info

    def state_dict(self) -> dict[str, Any]:
        return {
            "random": self.np_random.bit_generator.state,
            "last": self._last.tolist(),
            "steps": self._steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.np_random.bit_generator.state = state["random"]
        self._last, self._steps = np.array(state["last"], np.float32), state["steps"]

    def _observe(self) -> dict[str, Any]:
        random = self.np_random
        return {
            "vector": np.array([self._steps, *self._last]) + random.normal(size=3),
            "nested": {"class": random.integers(5), "bits": random.integers(0, 2, 4, dtype=np.int8)},
            "image": random.integers(0, 256, (4, 5, 3), dtype=np.uint8),
        }


class Do(IntEnum):
    """What an `Obedient` env does in its next step."""

    WALK = 0
    RAISE = 1
    HANG = 2
    HANG_IN_C = 3
    EXIT = 4
    STOP = 5
    FINISH_AND_RAISE_IN_RESET = 6
    SLEEP_A_LITTLE = 7
    RAISE_FROM_NOW_ON = 8


class Obedient(gymnasium.Env[Array, np.int64]):
    """Observes its steps in this episode and its start's random number; fails as the action says."""

    metadata = {"render_modes": []}  # noqa: RUF012  # gymnasium declares it on the instance

    def __init__(self, curse: str | None = None, grandchild: bool = False) -> None:
        self.observation_space = spaces.Box(0.0, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(len(Do))
        self._curse = None if curse is None else Path(curse)
        self._refuses_reset = False
        self._steps, self._start = 0, 0.0
        if grandchild:
            import subprocess

            self._program = subprocess.Popen(["sleep", "1000"])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        if self._refuses_reset:
            raise RuntimeError("told not to reset")
        self._steps, self._start = 0, float(self.np_random.random())
        return np.array([0.0, self._start]), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if self._curse is not None and self._curse.exists():
            raise RuntimeError("cursed")
        match Do(int(action)):
            case Do.RAISE:
                raise RuntimeError("told to raise")
            case Do.HANG:
                time.sleep(1000)
            case Do.HANG_IN_C:
                ctypes.PyDLL(None).sleep(1000)  # keeps the interpreter lock
            case Do.EXIT:
                os._exit(3)
            case Do.STOP:
                os.kill(os.getpid(), signal.SIGSTOP)
            case Do.FINISH_AND_RAISE_IN_RESET:
                self._refuses_reset = True
            case Do.SLEEP_A_LITTLE:
                time.sleep(0.3)
            case Do.RAISE_FROM_NOW_ON:
                assert self._curse is not None, "this needs a curse"
                self._curse.touch()
                raise RuntimeError("cursed first")
        self._steps += 1
        info = {"torch": "torch" in sys.modules, "pid": os.getpid()}
        return np.array([self._steps, self._start]), 1.0, self._refuses_reset, False, info

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps, "start": self._start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps, self._start = state["steps"], state["start"]


class Unreliable(gymnasium.Env[Array, np.int64]):
    """Raises with a probability per step; one byte goes to ``raised_file`` each time, to be counted from outside."""

    metadata = {"render_modes": []}  # noqa: RUF012  # gymnasium declares it on the instance

    def __init__(self, p: float, raised_file: str, episode_length: int = 50) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._p, self._raised_file, self._length = p, raised_file, episode_length
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if self.np_random.random() < self._p:
            with open(self._raised_file, "ab", buffering=0) as raised_file:
                raised_file.write(b".")
            raise RuntimeError("bad luck")
        self._steps += 1
        return self._observe(), float(action), False, self._steps >= self._length, {}

    def _observe(self) -> Array:
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)


class Faltering(gymnasium.Env[Array, np.int64]):
    """Raises now and then, in step and in reset, as its own random numbers say; it can be saved, with ``extra()``."""

    metadata = {"render_modes": []}  # noqa: RUF012  # gymnasium declares it on the instance

    def __init__(self, p: float = 0.05, extra: Callable[[], Any] | None = None) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._p, self._extra, self._steps = p, extra, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._observe("reset"), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self._observe("step"), float(action), False, self._steps >= 12, {}

    def state_dict(self) -> dict[str, Any]:
        extra = None if self._extra is None else self._extra()
        return {"steps": self._steps, "random": self.np_random.bit_generator.state, "extra": extra}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps, self.np_random.bit_generator.state = state["steps"], state["random"]

    def _observe(self, where: str) -> Array:
        if self.np_random.random() < self._p:
            raise RuntimeError(f"faltered in {where}")
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)


FALTERING = "faults/Faltering-v0"
if FALTERING not in gymnasium.registry:
    gymnasium.register(FALTERING, "faults.worker_worlds:Faltering")


class Slow(gymnasium.Env[Array, np.int64]):
    """A step takes a given time."""

    metadata = {"render_modes": []}  # noqa: RUF012  # gymnasium declares it on the instance

    def __init__(self, seconds: float) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._seconds = seconds

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.zeros(2, np.float32), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        time.sleep(self._seconds)
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Sized(Slow):
    """Observations of a given size."""

    def __init__(self, size: int) -> None:
        super().__init__(0.0)
        self.observation_space = spaces.Box(-1, 1, (size,), np.float32)


class Talkative(Slow):
    """Its info holds what no other process can have."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        return *super().step(action)[:4], {"lock": threading.Lock()}


class Closing(Slow):
    """Leaves a file when it is closed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(0.0)
        self._folder = folder

    def close(self) -> None:
        (self._folder / uuid.uuid4().hex).touch()
