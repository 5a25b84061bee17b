"""N accounts that have each sold one call and hedge it: positions, costs, profit and loss. Knows no Gymnasium.

One day: the hedger chooses positions aₜ at the prices of day t, pays ``cost_rate`` × |aₜ − aₜ₋₁| × price for the
change, and gains aₜ·(price of day t + 1 − price of day t). On the last day the payoff is due and the position is sold,
which costs the same rate. The premium comes with the first day. So with a₋₁ = 0 and p the prices

    P&L = premium + Σ aₜ·(pₜ₊₁ − pₜ) − rate·Σ|aₜ − aₜ₋₁|·pₜ − rate·a_{T−1}·p_T − (S_T − K)⁺
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.errors import ConfigError, EnvError
from surefoot.hedging.dynamics import Dynamics, Floats
from surefoot.hedging.observation import Observation, Units

Flags = npt.NDArray[np.bool_]
FIELDS = ("state", "prices", "day", "position", "pnl", "due")


class Book:
    """Everything is in columns of N accounts, float64. A finished account stays as it is until `open` renews it."""

    def __init__(self, dynamics: Dynamics, cost_rate: float, n: int) -> None:
        is_number = isinstance(cost_rate, float | int | np.floating) and not isinstance(cost_rate, bool)
        if not (is_number and 0.0 <= cost_rate < 1.0):
            raise ConfigError(
                f"cost_rate = {cost_rate!r}: must be a number in [0, 1), 0.01 is one percent of the traded value"
            )
        self.dynamics, self.cost_rate, self.n = dynamics, cost_rate, n
        self.units = Units(dynamics)
        self._limits = np.array(dynamics.position_limits)[:, None]
        self.state: Floats = np.empty((0, n))
        self.prices: Floats = np.empty((len(self._limits), n))
        self.day = np.zeros(n, np.int64)
        self.position: Floats = np.zeros_like(self.prices)
        self.pnl: Floats = np.zeros(n)
        self.due: Floats = np.zeros(n)
        """The premium, until the first reward has paid it."""

    def open_all(self, rng: np.random.Generator, first_day: npt.NDArray[np.int64] | int = 0) -> None:
        """Sell a new option in each account, at the money on ``first_day``, for the price of the days that are left."""
        self.state = self.dynamics.reset(rng, self.n)
        self.day[:] = first_day
        self.prices = self.dynamics.prices(self.state, self.day)
        self.position = np.zeros_like(self.prices)
        self.pnl = np.zeros(self.n)
        self.due = self.dynamics.premiums[self.dynamics.n_steps - self.day]

    def open(self, rng: np.random.Generator, rows: Flags) -> None:
        """Sell a new option on day 0 in the accounts that ``rows`` marks."""
        if rows.all():
            self.open_all(rng)
            return
        index = np.flatnonzero(rows)
        self.state[:, index] = self.dynamics.reset(rng, len(index))
        self.day[index] = 0
        self.prices[:, index] = self.dynamics.prices(self.state[:, index], self.day[index])
        self.position[:, index] = 0.0
        self.pnl[index] = 0.0
        self.due[index] = self.dynamics.premium

    def trade(self, rng: np.random.Generator, actions: npt.ArrayLike) -> tuple[Floats, Flags]:
        """One day: (change of P&L [N], whether the option has expired [N]). Positions beyond the limits are cut."""
        wanted = self._positions(actions)
        traded = np.abs(wanted - self.position)
        traded *= self.prices
        self.state = self.dynamics.step(rng, self.state)
        self.day += 1
        prices = self.dynamics.prices(self.state, self.day)
        gains = wanted * (prices - self.prices)
        gains -= self.cost_rate * traded
        reward = self.due + (gains[0] if len(gains) == 1 else gains.sum(0))
        self.position, self.prices, self.due = wanted, prices, np.zeros(self.n)
        expired = self.day == self.dynamics.n_steps
        if expired.any():
            unwound = self.cost_rate * (wanted * prices).sum(0)
            reward -= np.where(expired, self.dynamics.payoff(self.state) + unwound, 0.0)
        self.pnl += reward
        return reward, expired

    def observe(self) -> Observation:
        return self.units.encode(self.state, self.day, self.position, self.pnl)

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).copy() for name in FIELDS}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["day"].shape != (self.n,):
            raise EnvError(f"the saved state is of {len(state['day'])} accounts, this env has {self.n}")
        for name in FIELDS:
            setattr(self, name, state[name].copy())

    def _positions(self, actions: npt.ArrayLike) -> Floats:
        """[N, instruments] -> [instruments, N], within the limits."""
        given = np.asarray(actions, np.float64)
        if given.shape != (self.n, len(self._limits)):
            raise EnvError(f"actions have shape {given.shape}, expected {(self.n, len(self._limits))}")
        # A sum is one number to test, and it is finite if all are: they are cut to the box next.
        if not math.isfinite(given.sum()) and not np.isfinite(given).all():
            row = int(np.flatnonzero(~np.isfinite(given).all(1))[0])
            raise EnvError(f"the action of env {row} is {given[row]}: positions must be finite")
        wanted: Floats = np.minimum(np.maximum(given.T, 0.0), self._limits)
        return wanted
