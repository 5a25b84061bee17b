"""What a hedger sees, in units that make each number of order 1; and back to money, for rules that think in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from surefoot.hedging.dynamics import Days, Dynamics, Floats, State

Observation = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Seen:
    """An observation in money, days and units of the instruments; columns of length N."""

    spot: Floats
    variance: Floats
    """Annual; for dynamics without an own variance, the constant one."""
    day: Floats
    position: Floats
    """[N, instruments], before this day's trade."""
    pnl: Floats


class Units:
    """Observations of one dynamics, [N, D] float32. Columns:

    - ``log_moneyness``: log(S/K), in standard deviations σ√T of its value at maturity (σ of day 0)
    - ``volatility`` (only if the dynamics has a variance): √(V/V₀)
    - ``time``: share of the option's life that has passed, from 0 to 1
    - ``position`` (one for each instrument): held so far, as a share of the largest allowed
    - ``pnl``: running profit and loss, the sum of the episode's rewards so far, in units of the premium of day 0
    """

    def __init__(self, dynamics: Dynamics) -> None:
        self.dynamics = dynamics
        n = len(dynamics.position_limits)
        positions = ("position",) if n == 1 else tuple(f"position_{i}" for i in range(n))
        self.names = ("log_moneyness", *(("volatility",) if dynamics.has_variance else ()), "time", *positions, "pnl")
        self.pnl_unit = dynamics.premium
        """How much money 1 in the column ``pnl`` is."""
        self._limits = np.array(dynamics.position_limits)
        self._time = 2 if dynamics.has_variance else 1
        self._positions = slice(self._time + 1, self._time + 1 + n)

    @property
    def space(self) -> spaces.Box:
        low = np.full(len(self.names), -np.inf, np.float32)
        high = np.full(len(self.names), np.inf, np.float32)
        low[1 : self._positions.stop] = 0.0
        high[self._time : self._positions.stop] = 1.0
        return spaces.Box(low, high, dtype=np.float32)

    def encode(self, state: State, day: Days, position: Floats, pnl: Floats) -> Observation:
        """``position`` is [instruments, N]."""
        dynamics = self.dynamics
        seen = np.empty((state.shape[1], len(self.names)), np.float32)
        log_moneyness = np.log(state[0] * (1.0 / dynamics.strike))
        log_moneyness *= 1.0 / dynamics.log_scale
        seen[:, 0] = log_moneyness
        if dynamics.has_variance:
            seen[:, 1] = np.sqrt(state[1]) / dynamics.volatility
        np.multiply(day, 1.0 / dynamics.n_steps, out=seen[:, self._time], casting="unsafe")
        seen[:, self._positions] = position.T / self._limits
        np.multiply(pnl, 1.0 / self.pnl_unit, out=seen[:, -1], casting="unsafe")
        return seen

    def decode(self, observation: npt.NDArray[Any]) -> Seen:
        """The inverse of `encode`, up to the rounding of float32."""
        seen = observation.astype(np.float64)
        dynamics = self.dynamics
        volatility = (
            seen[:, 1] * dynamics.volatility if dynamics.has_variance else np.full(len(seen), dynamics.volatility)
        )
        return Seen(
            spot=dynamics.strike * np.exp(seen[:, 0] * dynamics.log_scale),
            variance=volatility**2,
            day=np.rint(seen[:, self._time] * dynamics.n_steps),
            position=seen[:, self._positions] * self._limits,
            pnl=seen[:, -1] * self.pnl_unit,
        )
