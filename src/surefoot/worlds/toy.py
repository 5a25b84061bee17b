"""What every toy world offers: a known optimum, and a state that can be saved and restored exactly."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import gymnasium
import numpy as np

ObsT = TypeVar("ObsT")
ActT = TypeVar("ActT")


class ToyEnv(gymnasium.Env[ObsT, ActT], Generic[ObsT, ActT]):
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

    changing: tuple[str, ...] = ()
    """Fields that change from step to step, without their underscore: numbers, or lists, tuples or arrays of them."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides the future of this world, as plain JSON values."""
        world = {name: np.array(getattr(self, f"_{name}")).tolist() for name in self.changing}
        return {"rng": self.np_random.bit_generator.state, "world": world}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`: same actions, same observations and rewards, bit for bit."""
        self.np_random.bit_generator.state = state["rng"]
        for name in self.changing:
            saved, now = state["world"][name], getattr(self, f"_{name}")
            setattr(self, f"_{name}", np.array(saved, now.dtype) if isinstance(now, np.ndarray) else type(now)(saved))
