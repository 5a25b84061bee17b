"""What the agent's actions mean: a target as a fraction of equity, any of them or one of a few levels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from surefoot.errors import ConfigError, EnvError
from surefoot.market.limits import Limits
from surefoot.market.prices import Column
from surefoot.market.simulator import Flags, Indices
from surefoot.market.spec import nearest, require


class Order(NamedTuple):
    """What is asked for and what is allowed, all [N]."""

    target: Column
    """As a fraction of equity, within the limits."""
    hold: Flags | None
    """Where nothing may be traded; None if that is nowhere."""
    limited: Flags
    """Where a limit made the target another one than asked for, or forbade to trade."""
    choice: Indices | None
    """The level that now stands."""


class Orders(ABC):
    """Actions of N accounts."""

    space: spaces.Space[Any]
    """Of one account."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    @abstractmethod
    def read(self, actions: Any, bar: Indices, position: Column, choice: Indices) -> Order:
        """Actions decided at the close of ``bar`` with this position held."""

    def masks(self, bar: Indices, choice: Indices) -> Flags | None:
        """Legal actions [N, K], or None if actions have no masks."""
        return None

    def _within(self, asked: Column, allowed: Column, bar: Indices, position: Column) -> tuple[Column, Any, Flags]:
        """Limits of the moment applied: (target, hold, limited)."""
        if self.limits.most is not None:
            most = self.limits.most[bar]
            allowed = np.minimum(np.maximum(allowed, -most), most)
        limited: Flags = allowed != asked
        if self.limits.hold is None:
            return allowed, None, limited
        hold = self.limits.hold[bar]
        return allowed, hold, np.where(hold, np.abs(asked - position) > 1e-9, limited)


class Targets(Orders):
    """A Box: the position as a fraction of equity; what lies outside is brought to its border."""

    def __init__(self, limits: Limits, allow_short: bool) -> None:
        super().__init__(limits)
        self._low = -1.0 if allow_short else 0.0
        self.space = spaces.Box(self._low, 1.0, (1,), np.float32)

    def read(self, actions: Any, bar: Indices, position: Column, choice: Indices) -> Order:
        asked = np.asarray(actions, np.float64)
        if asked.shape != (len(bar), 1):
            raise EnvError(f"actions have shape {asked.shape}, {len(bar)} accounts need ({len(bar)}, 1)")
        asked = asked[:, 0]
        if not math.isfinite(np.add.reduce(asked)):
            _require_finite(asked)
        allowed = np.minimum(np.maximum(asked, self._low), 1.0)
        return Order(*self._within(asked, allowed, bar, position), None)


class Levels(Orders):
    """A Discrete: one of a list of targets. Limits of the moment show as masks."""

    def __init__(self, limits: Limits, levels: Sequence[float], allow_short: bool) -> None:
        super().__init__(limits)
        wrong = [x for x in levels if type(x) not in (int, float) or not -1.0 <= x <= 1.0]
        require(not wrong, f"levels = {tuple(levels)}: {wrong and wrong[0]!r} is no fraction of equity in [-1, 1]")
        require(0.0 in levels, f"levels = {tuple(levels)} must have 0: accounts start without a position")
        require(len(set(levels)) == len(levels) > 1, f"levels = {tuple(levels)} must be two or more, each once")
        require(
            allow_short or min(levels) >= 0.0, f"levels = {tuple(levels)} has a short one, and allow_short is False"
        )
        self._levels: NDArray[np.float64] = np.array(levels, np.float64)
        self.flat = list(levels).index(0.0)
        """The level that accounts start at."""
        self.space = spaces.Discrete(len(levels))
        self._masked = limits.hold is not None or limits.most is not None

    def read(self, actions: Any, bar: Indices, position: Column, choice: Indices) -> Order:
        asked = np.asarray(actions)
        if asked.shape != (len(bar),) or asked.dtype.kind not in "iu":
            raise EnvError(
                f"actions are {asked.dtype} of shape {asked.shape}, {len(bar)} accounts need as many integers"
            )
        if np.minimum.reduce(asked) < 0 or np.maximum.reduce(asked) >= len(self._levels):
            row = int(np.flatnonzero((asked < 0) | (asked >= len(self._levels)))[0])
            raise EnvError(
                f"the action of account {row} is {asked[row]}, there are levels 0 to {len(self._levels) - 1}"
            )
        fractions = self._levels[asked]
        target, hold, limited = self._within(fractions, fractions, bar, position)
        if hold is None:
            return Order(target, hold, limited, asked.astype(np.int64))
        return Order(target, hold, hold & (asked != choice) | ~hold & limited, np.where(hold, choice, asked))

    def masks(self, bar: Indices, choice: Indices) -> Flags | None:
        if not self._masked:
            return None
        legal: Flags = np.ones((len(bar), len(self._levels)), np.bool_)
        if self.limits.most is not None:
            legal &= np.abs(self._levels) <= self.limits.most[bar][:, None]
        if self.limits.hold is not None:
            stays = np.arange(len(self._levels)) == choice[:, None]
            legal = np.where(self.limits.hold[bar][:, None], stays, legal)
        return legal


def build_orders(action: str, levels: Sequence[float], allow_short: bool, limits: Limits) -> Orders:
    """By name: ``target`` or ``levels``."""
    if action == "target":
        return Targets(limits, allow_short)
    if action == "levels":
        return Levels(limits, levels, allow_short)
    raise ConfigError(f"action = {action!r} is not known{nearest(action, ('target', 'levels'))}; use target or levels")


def _require_finite(asked: Column) -> None:
    rows = np.flatnonzero(~np.isfinite(asked))
    if rows.size:
        raise EnvError(
            f"the action of account {rows[0]} is {asked[rows[0]]}: a target must be a finite fraction of equity; "
            "look for NaN in the policy"
        )
