"""What the agent is paid for: a list of components, added up and told apart in the info. A new one is one line more.

Equity already pays every cost, so growth is net of them (E01). Flat prices and no trade give exactly 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from surefoot.errors import ConfigError
from surefoot.market.prices import Column
from surefoot.market.spec import Spec, build, require

LEAST_GROWTH = 1e-3
"""A bar that takes more than 99.9 % of an account counts as one that takes 99.9 %: the logarithm stays finite."""


class Moment(NamedTuple):
    """What a step did to the accounts, all [N]."""

    growth: Column
    """log of equity over the equity before, all costs paid."""
    drawdown: Column
    """1 − equity / its highest in the episode."""
    drawdown_before: Column
    paid: Column
    """Fees of trading as a fraction of the equity before."""
    turnover: Column
    """Value traded as a fraction of the equity before."""
    exposure: Column
    """Size of the position as a fraction of equity."""


class Reward(ABC):
    """One component; concrete ones are frozen dataclasses whose fields are their settings."""

    name: ClassVar[str]
    slots: ClassVar[int] = 0
    """Numbers that it remembers for each account, 0 at the start of an episode."""

    @abstractmethod
    def value(self, moment: Moment, memory: Column) -> Column:
        """[N]; ``memory`` [slots, N] may be changed in place."""


@dataclass(frozen=True)
class LogGrowth(Reward):
    """log(equity / equity before), net of all costs."""

    name: ClassVar[str] = "log_growth"
    coef: float = 1.0

    def value(self, moment: Moment, memory: Column) -> Column:
        return moment.growth if self.coef == 1.0 else self.coef * moment.growth


@dataclass(frozen=True)
class DifferentialSharpe(Reward):
    """How much a return r raises the Sharpe ratio of an exponential window (Moody and Saffell 2001):

        η·(B·ΔA − A·ΔB / 2) / (B − A²)^(3/2),   ΔA = r − A,   ΔB = r² − B,

    with A and B the moving means of r and r². The deviation √(B − A²) is taken as at least ``floor``, without which
    the first trade after a quiet time would be worth any amount.
    """

    name: ClassVar[str] = "differential_sharpe"
    slots: ClassVar[int] = 2
    eta: float = 0.01
    floor: float = 1e-3

    def __post_init__(self) -> None:
        require(0.0 < self.eta < 1.0, f"differential_sharpe: eta is {self.eta}, it must be between 0 and 1")
        require(self.floor > 0.0, f"differential_sharpe: floor is {self.floor}, it must be positive")

    def value(self, moment: Moment, memory: Column) -> Column:
        mean, square = memory
        d_mean, d_square = moment.growth - mean, moment.growth**2 - square
        # B enters as A² + variance, so that the floor of the variance is the floor of B too.
        variance = np.maximum(square - mean * mean, self.floor**2)
        gain: Column = self.eta * ((variance + mean * mean) * d_mean - 0.5 * mean * d_square) / variance**1.5
        memory[0] += self.eta * d_mean
        memory[1] += self.eta * d_square
        return gain


@dataclass(frozen=True)
class Drawdown(Reward):
    """−coef times the increase of the drawdown beyond ``threshold``: over an episode, what each new low took."""

    name: ClassVar[str] = "drawdown"
    threshold: float = 0.1
    coef: float = 1.0

    def value(self, moment: Moment, memory: Column) -> Column:
        beyond = np.maximum(moment.drawdown, self.threshold) - np.maximum(moment.drawdown_before, self.threshold)
        penalty: Column = -self.coef * np.maximum(beyond, 0.0)
        return penalty


@dataclass(frozen=True)
class Variance(Reward):
    """−coef times the squared growth."""

    name: ClassVar[str] = "variance"
    coef: float = 1.0

    def value(self, moment: Moment, memory: Column) -> Column:
        return np.multiply(moment.growth, -self.coef * moment.growth)


@dataclass(frozen=True)
class Turnover(Reward):
    """−coef times the value traded, at the rates that it costs (E01): with coef = 1 trading is felt twice."""

    name: ClassVar[str] = "turnover"
    coef: float = 1.0

    def value(self, moment: Moment, memory: Column) -> Column:
        return -self.coef * moment.paid


REWARDS: dict[str, type[Reward]] = {x.name: x for x in (LogGrowth, DifferentialSharpe, Drawdown, Variance, Turnover)}


class RewardSum:
    """Components added up."""

    def __init__(self, specs: Spec | Sequence[Spec]) -> None:
        listed = [specs] if isinstance(specs, str | Mapping) else list(specs)
        self.parts = [build(spec, REWARDS, "the reward") for spec in listed]
        self.names = [part.name for part in self.parts]
        if not self.parts or len(set(self.names)) < len(self.names):
            raise ConfigError(f"reward = {specs!r} must name one or more components, each once")
        ends = np.cumsum([part.slots for part in self.parts]).tolist()
        self._slots = [slice(end - part.slots, end) for part, end in zip(self.parts, ends, strict=True)]
        self.n_slots = int(ends[-1])

    def value(self, moment: Moment, memory: Column) -> tuple[Column, dict[str, Column]]:
        """[N] and its components by name; ``memory`` [n_slots, N] is changed in place."""
        found = {
            part.name: part.value(moment, memory[slots]) for part, slots in zip(self.parts, self._slots, strict=True)
        }
        columns = list(found.values())
        return (columns[0] if len(columns) == 1 else np.sum(columns, axis=0)), found
