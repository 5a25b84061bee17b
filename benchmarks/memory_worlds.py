"""The worlds of the memory benchmark, made by name so that a run's record says all about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from surefoot.worlds import Greenhouse, Recall, TMaze

Env = gym.Env[Any, Any]
POSITIONS = {"CartPole-v1": (1.0, 0.0, 1.0, 0.0), "Pendulum-v1": (1.0, 1.0, 0.0)}
"""1 where an observation is a position, 0 where it is a velocity."""


class WithoutVelocities(gym.ObservationWrapper[npt.NDArray[Any], Any, npt.NDArray[Any]]):
    """Zeros in place of the velocities, as the zoo's `MaskVelocityWrapper` has it."""

    def __init__(self, env_id: str) -> None:
        super().__init__(gym.make(env_id))
        self._positions = np.array(POSITIONS[env_id], np.float32)

    def observation(self, observation: npt.NDArray[Any]) -> npt.NDArray[Any]:
        seen: npt.NDArray[Any] = observation * self._positions
        return seen


def popgym(name: str) -> Env:
    """An env of the POPGym suite (https://github.com/proroklab/popgym)."""
    from popgym.envs.count_recall import CountRecallEasy
    from popgym.envs.repeat_previous import RepeatPreviousEasy

    made: Env = {"CountRecallEasy": CountRecallEasy, "RepeatPreviousEasy": RepeatPreviousEasy}[name]()
    return made


WORLDS: dict[str, Callable[..., Env]] = {
    "recall": Recall,
    "t-maze": TMaze,
    "greenhouse": Greenhouse,
    "without velocities": WithoutVelocities,
    "popgym": popgym,
}
