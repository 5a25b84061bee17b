"""``info["cost"]``: what a limit on expected costs can rest on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.market.prices import Column
from surefoot.market.rewards import Moment
from surefoot.market.spec import build, require


class Constraint(ABC):
    """A cost of a step, 0 or more."""

    name: ClassVar[str]

    @abstractmethod
    def value(self, moment: Moment) -> Column:
        """[N]."""


@dataclass(frozen=True)
class DrawdownBeyond(Constraint):
    """How far the drawdown is beyond ``threshold``."""

    name: ClassVar[str] = "drawdown"
    threshold: float = 0.1

    def __post_init__(self) -> None:
        require(0.0 <= self.threshold < 1.0, f"cost: the drawdown {self.threshold} must be in [0, 1)")

    def value(self, moment: Moment) -> Column:
        return np.maximum(moment.drawdown - self.threshold, 0.0)


@dataclass(frozen=True)
class TurnoverCost(Constraint):
    """Value traded as a fraction of equity."""

    name: ClassVar[str] = "turnover"

    def value(self, moment: Moment) -> Column:
        return moment.turnover


@dataclass(frozen=True)
class Exposure(Constraint):
    """Size of the position as a fraction of equity."""

    name: ClassVar[str] = "exposure"

    def value(self, moment: Moment) -> Column:
        return moment.exposure


CONSTRAINTS: dict[str, type[Constraint]] = {x.name: x for x in (DrawdownBeyond, TurnoverCost, Exposure)}


def build_constraint(spec: str | None) -> Constraint | None:
    """``"drawdown:0.1"`` (or ``"drawdown(0.1)"``), ``"turnover"``, ``"exposure"``; None is none."""
    if spec is None:
        return None
    name, colon, number = str(spec).partition(":")
    return build(f"{name}({number})" if colon else spec, CONSTRAINTS, "the cost")
