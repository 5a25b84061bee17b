"""What every toy world offers: a known optimum, and a state that can be saved and restored exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import gymnasium

ObsT = TypeVar("ObsT")
ActT = TypeVar("ActT")


class ToyEnv(gymnasium.Env[ObsT, ActT], ABC, Generic[ObsT, ActT]):
    """A world small enough that the best and the random policy's returns are known in closed form."""

    discount: float = 1.0
    """Discount under which the returns below hold; 1 is the plain sum of an episode's rewards."""
    optimal_return: float
    """Expected return of the best policy."""
    random_return: float
    """Expected return of the uniformly random policy."""

    def score(self, mean_return: float) -> float:
        """Where a return stands between random (0) and optimal (1)."""
        return (mean_return - self.random_return) / (self.optimal_return - self.random_return)

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides the future of this world, as plain JSON values."""
        return {"rng": self.np_random.bit_generator.state, "world": self._world_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`: same actions, same observations and rewards, bit for bit."""
        self.np_random.bit_generator.state = state["rng"]
        self._restore_world(state["world"])

    @abstractmethod
    def _world_state(self) -> dict[str, Any]:
        """The fields that change from step to step, as JSON values."""

    @abstractmethod
    def _restore_world(self, world: dict[str, Any]) -> None:
        """The inverse of `_world_state`."""
