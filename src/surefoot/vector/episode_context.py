"""The return of each open episode so far: what a tail of whole episodes depends on beside the observation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.spaces import Array

LARGEST = 10.0
"""Beyond so many units the context is cut off: it is far from where the tail begins, on either side."""

LARGEST_SUM = 1e150
"""Of what is loaded: its square is finite."""
UNKNOWN = (0.0, np.inf)
"""Origin and scale as long as there is no unit: everything is seen as 0."""


class EpisodeContext:
    """Σ γ^k·r_k of each env's open episode, k counted from its first step, and γ^k of the step to come.

    Networks see the first as z = (x − origin)/scale, and its negative part, because a shortfall bends at 0, which
    smooth layers would have to learn. If γ < 1 they also see the second, since what is still to come then counts γ^k
    times. Until a unit is known they see 0.
    """

    def __init__(self, n_envs: int, discount: float) -> None:
        self.discount = discount
        self.origin, self.scale = UNKNOWN
        self.running: NDArray[np.float64] = np.zeros(n_envs)
        self.weight: NDArray[np.float64] = np.ones(n_envs)

    @property
    def n_columns(self) -> int:
        """C."""
        return n_context_columns(self.discount)

    def set_unit(self, origin: float, scale: float) -> None:
        """From now on x is seen as (x − origin)/scale."""
        self.origin, self.scale = origin, scale

    def columns(self) -> Array:
        """What networks see, [N, C] float32."""
        return self.seen(self.running, self.weight)

    def seen(self, running: NDArray[np.float64], weight: NDArray[np.float64]) -> Array:
        """The same for returns so far and discounts [N] that are given."""
        x = np.clip((running - self.origin) / self.scale, -LARGEST, LARGEST)
        parts = [x, np.minimum(x, 0.0)] if self.discount == 1.0 else [x, np.minimum(x, 0.0), weight]
        return np.stack(parts, 1).astype(np.float32)

    def after(self, reward: NDArray[np.float64]) -> Array:
        """What networks see of the successors of a step with these rewards [N], whether or not the episode goes on."""
        return self.seen(self.running + self.weight * reward, self.weight * self.discount)

    def step(self, reward: NDArray[np.float64], valid: NDArray[np.bool_], ended: NDArray[np.bool_]) -> None:
        """Count a step of all envs; ``ended`` where the next step is the first of another episode."""
        self.running += np.where(valid, self.weight * reward, 0.0)
        self.weight = np.where(valid, self.weight * self.discount, self.weight)
        self.running[ended] = 0.0
        self.weight[ended] = 1.0

    def update_rows(self, rows: Array, reward: Array, start: Array) -> None:
        """The envs ``rows`` [M] were paid ``reward`` [M] since, or are at the start of an episode."""
        running, weight = self.running[rows], self.weight[rows]
        self.running[rows] = np.where(start, 0.0, running + weight * reward)
        self.weight[rows] = np.where(start, 1.0, weight * self.discount)

    def anew(self, n_envs: int) -> EpisodeContext:
        """Other envs, at the start of their episodes, seen in the same unit."""
        other = EpisodeContext(n_envs, self.discount)
        other.set_unit(self.origin, self.scale)
        return other

    def forget_open(self, n_envs: int) -> None:
        """All envs, now so many, start new episodes."""
        self.running, self.weight = np.zeros(n_envs), np.ones(n_envs)

    def state_dict(self) -> dict[str, Any]:
        """Of the open episodes, as JSON; the unit belongs to whoever sets it."""
        return {"running": self.running.tolist(), "weight": self.weight.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore; ValueError unless it is of as many envs."""
        running, weight = (np.array(state[name], np.float64) for name in ("running", "weight"))
        same = running.shape == weight.shape == self.running.shape
        if not same or not (np.abs(running) <= LARGEST_SUM).all() or not ((weight >= 0.0) & (weight <= 1.0)).all():
            raise ValueError("what it says of the returns of open episodes is not one finite number for each env")
        self.running, self.weight = running, weight


def n_context_columns(discount: float) -> int:
    """How many numbers tell networks how an episode stands."""
    return 2 if discount == 1.0 else 3
