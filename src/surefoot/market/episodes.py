"""Where episodes begin and end, and what is drawn for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from surefoot.market.draws import Keys, uniform
from surefoot.market.prices import Column
from surefoot.market.simulator import Indices
from surefoot.market.spec import require

START, LENGTH, COSTS = range(3)


class Drawn(NamedTuple):
    """Of some episodes, [n] each."""

    start: Indices
    """The bar at whose close the first decision is made."""
    end: Indices
    """The bar at whose close the episode is truncated."""
    multiplier: Column


@dataclass(frozen=True)
class Episodes:
    """What may be drawn. With ``length`` None an episode runs to the end of the span: from its first bar, and only an
    account's very first one from anywhere, so that accounts spread over the span and every bar is seen as often."""

    first: int
    """The first bar at which a decision can be made."""
    last: int
    """The last bar of the span."""
    length: tuple[int, int] | None
    """Steps at least and at most."""
    random_start: bool
    multiplier: tuple[float, float]
    """Of all costs, log-uniform between the two."""

    def __post_init__(self) -> None:
        low, high = self.multiplier
        require(0.0 < low <= high < np.inf, f"cost_multiplier = {self.multiplier} must be 0 < low ≤ high")
        if self.length is not None:
            least, most = self.length
            room = self.last - self.first
            require(1 <= least <= most, f"episode_length = {self.length} must be at least 1 step")
            require(
                most <= room,
                f"episode_length = {most} is longer than the span, which has room for {room} steps after the warm-up",
            )

    def draw(self, keys: Keys, episodes: Indices) -> Drawn:
        """Of the given episode of each account."""
        n = len(keys)
        if self.length is None:
            end = np.full(n, self.last)
            begins = np.full(n, self.first)
            if self.random_start:
                room = self.last - self.first
                anywhere = self.first + (uniform(keys, episodes, START) * room).astype(np.int64)
                begins = np.where(episodes == 0, anywhere, begins)
        else:
            least, most = self.length
            steps = least + (uniform(keys, episodes, LENGTH) * (most - least + 1)).astype(np.int64)
            begins = np.full(n, self.first)
            if self.random_start:
                choices = self.last - self.first - steps + 1
                begins = begins + (uniform(keys, episodes, START) * choices).astype(np.int64)
            end = begins + steps
        low, high = self.multiplier
        multiplier = low * (high / low) ** uniform(keys, episodes, COSTS) if high > low else np.full(n, low)
        return Drawn(begins, end, multiplier)
