"""The accounts of a market: all that changes from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefoot.errors import EnvStateError
from surefoot.market.costs import KINDS
from surefoot.market.draws import keys_of
from surefoot.market.prices import Column
from surefoot.market.simulator import Flags, Marked
from surefoot.market.world import World

COUNTS = ("bar", "start", "end", "choice", "episode")
MONEY = ("peak", "multiplier", "drawdown", "position")
MARKS = ("cash", "units", "equity", "value", "close")


class Accounts:
    """N of them; each array has one number for each, and is replaced rather than written to.

    Only a reset writes, into arrays that it has copied: what a caller got in an info stays as it was.
    """

    def __init__(self, world: World, n: int, seed: int | Sequence[int] | None) -> None:
        self._world, self.n = world, n
        self.keys = keys_of(seed, n)
        self.bar, self.start, self.end, self.choice = (np.zeros(n, np.int64) for _ in range(4))
        self.episode = np.full(n, -1, np.int64)
        """How many episodes were begun before this one."""
        self.peak, self.multiplier, self.drawdown, self.position = (np.zeros(n) for _ in range(4))
        cash, units, equity, value, close, traded = np.zeros((6, n))
        self.marked = Marked(cash, units, equity, value, close, traded, np.zeros((len(KINDS), n)))
        self.memory = np.zeros((world.reward.n_slots, n))
        self.per_step = np.zeros(n)
        """1 / steps of the episode."""

    def reseed(self, seed: int | Sequence[int]) -> None:
        """Begin again as if made with this seed."""
        self.keys = keys_of(seed, self.n)
        self.episode = np.full(self.n, -1, np.int64)

    def begin(self, rows: Flags) -> None:
        """A new episode for the marked accounts."""
        self.episode = self.episode + rows
        drawn = self._world.episodes.draw(self.keys[rows], self.episode[rows])
        self.bar, self.start, self.end = (
            _written(old, rows, new)
            for old, new in ((self.bar, drawn.start), (self.start, drawn.start), (self.end, drawn.end))
        )
        capital, marked = self._world.capital, self.marked
        self.marked = Marked(
            cash=_written(marked.cash, rows, capital),
            units=_written(marked.units, rows, 0.0),
            equity=_written(marked.equity, rows, capital),
            value=_written(marked.value, rows, 0.0),
            close=_written(marked.close, rows, self._world.simulator.close(drawn.start)),
            traded=_written(marked.traded, rows, 0.0),
            fees=_written(marked.fees, (slice(None), rows), 0.0),
        )
        self.peak = _written(self.peak, rows, capital)
        self.multiplier = _written(self.multiplier, rows, drawn.multiplier)
        self.drawdown, self.position = (_written(x, rows, 0.0) for x in (self.drawdown, self.position))
        self.choice = _written(self.choice, rows, self._world.flat)
        self.memory[:, rows] = 0.0
        self.per_step = 1.0 / (self.end - self.start)

    @property
    def time_left(self) -> Column:
        """Part of the episode that is left."""
        left: Column = (self.end - self.bar) * self.per_step
        return left

    def state_dict(self) -> dict[str, Any]:
        """Everything that their future depends on."""
        state: dict[str, Any] = {name: getattr(self, name).copy() for name in (*COUNTS, *MONEY)}
        state |= {name: getattr(self.marked, name).copy() for name in MARKS}
        return state | {"keys": self.keys.copy(), "memory": self.memory.copy(), "bars": len(self._world.prices)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there; raises before anything is changed if the state is of another market."""
        found = {name: np.asarray(state[name]) for name in (*COUNTS, *MONEY, *MARKS, "keys") if name in state}
        missing = next((x for x in (*COUNTS, *MONEY, *MARKS, "keys", "memory", "bars") if x not in state), None)
        if missing is not None:
            raise EnvStateError(f"the state of a market lacks {missing!r}")
        wrong = next((name for name, x in found.items() if x.shape != (self.n,)), None)
        bars, memory = int(state["bars"]), np.asarray(state["memory"], np.float64)
        if wrong is not None or memory.reshape(-1, self.n).shape != self.memory.shape:
            raise EnvStateError(f"the state is of another number of accounts than {self.n}, or of other rewards")
        if bars != len(self._world.prices) or (found["end"] >= bars).any():
            raise EnvStateError(f"the state is of a market with {bars} bars, this one has {len(self._world.prices)}")
        for name in COUNTS:
            setattr(self, name, found[name].astype(np.int64))
        for name in MONEY:
            setattr(self, name, found[name].astype(np.float64))
        self.keys, self.memory = found["keys"].astype(np.uint64), memory.reshape(self.memory.shape).copy()
        marks = {name: found[name].astype(np.float64) for name in MARKS}
        self.marked = Marked(**marks, traded=np.zeros(self.n), fees=np.zeros((len(KINDS), self.n)))
        self.per_step = 1.0 / np.maximum(self.end - self.start, 1)


def _written(old: Any, rows: Any, new: Any) -> Any:
    """A copy with some entries replaced."""
    copy = old.copy()
    copy[rows] = new
    return copy
