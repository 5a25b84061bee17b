"""Classical rules for hedging a sold call. Each sees what an agent sees, and answers with positions.

A strategy is a callable: observations [N, D] as of `observation.Units` -> positions [N, instruments]. A trained policy
is one too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.errors import ConfigError
from surefoot.hedging.black_scholes import call_delta, call_gamma
from surefoot.hedging.dynamics import BinomialTree, Dynamics, Floats
from surefoot.hedging.observation import Seen, Units

Strategy = Callable[[npt.NDArray[np.float32]], npt.NDArray[Any]]


class NoHedge:
    """Keeps the premium and hopes."""

    def __init__(self, dynamics: Dynamics) -> None:
        self._instruments = len(dynamics.position_limits)

    def __call__(self, observation: npt.NDArray[np.float32]) -> Floats:
        return np.zeros((len(observation), self._instruments))


class Delta:
    """The Black–Scholes delta each day, whatever trading costs; the volatility is that of day 0."""

    def __init__(self, dynamics: Dynamics) -> None:
        self._model = _Model(dynamics)

    def __call__(self, observation: npt.NDArray[np.float32]) -> Floats:
        return self._model.delta(self._model.units.decode(observation))[:, None]


class Band:
    """Trades only when the position is farther than ``width`` from the delta, and then only to the nearest edge."""

    def __init__(self, dynamics: Dynamics, width: float) -> None:
        if not 0.0 <= width <= 1.0:
            raise ConfigError(f"width = {width}: a band around the delta has a half-width in [0, 1]")
        self._model = _Model(dynamics)
        self.width = width

    def __call__(self, observation: npt.NDArray[np.float32]) -> Floats:
        seen = self._model.units.decode(observation)
        return _nearest_edge(seen, self._model.delta(seen), np.array(self.width))


class WhalleyWilmott:
    """A band whose half-width is (3/2·c·S·Γ²/λ)^⅓, for costs of rate c and an exponential utility of risk aversion λ.

    The limit of small costs of the optimal rule. Source: Whalley, Wilmott 1997, "An asymptotic analysis of an optimal
    hedging model for option pricing with transaction costs".
    """

    def __init__(self, dynamics: Dynamics, cost_rate: float, risk_aversion: float = 1.0) -> None:
        if not risk_aversion > 0:
            raise ConfigError(f"risk_aversion = {risk_aversion}: must be positive")
        self._model = _Model(dynamics)
        self._factor = 1.5 * cost_rate / risk_aversion

    def __call__(self, observation: npt.NDArray[np.float32]) -> Floats:
        seen = self._model.units.decode(observation)
        width = np.cbrt(self._factor * seen.spot * self._model.gamma(seen) ** 2)
        return _nearest_edge(seen, self._model.delta(seen), width)


class TreeDelta:
    """Replicates the call in a binomial tree exactly: (value after up − value after down)/(difference of the spots)."""

    def __init__(self, dynamics: BinomialTree) -> None:
        self._units, self._dynamics = Units(dynamics), dynamics
        spots = [dynamics.strike * dynamics.up ** np.arange(-t, t + 1.0, 2.0) for t in range(dynamics.n_steps + 1)]
        values = dynamics.values(dynamics.n_steps)
        self._deltas = np.zeros((dynamics.n_steps, dynamics.n_steps))
        for day in range(dynamics.n_steps):
            self._deltas[day, : day + 1] = np.diff(values[day + 1]) / np.diff(spots[day + 1])

    def __call__(self, observation: npt.NDArray[np.float32]) -> Floats:
        seen = self._units.decode(observation)
        day = seen.day.astype(np.int64)
        log_up = np.log(self._dynamics.up)
        ups = np.rint((np.log(seen.spot / self._dynamics.strike) / log_up + day) / 2.0).astype(np.int64)
        held: Floats = self._deltas[day, ups]
        return held[:, None]


class _Model:
    """Black–Scholes sensitivities at what is seen, for dynamics whose only instrument is the stock."""

    def __init__(self, dynamics: Dynamics) -> None:
        if len(dynamics.position_limits) != 1:
            raise ConfigError(
                f"{type(dynamics).__name__} has {len(dynamics.position_limits)} instruments, and this rule trades the "
                "stock only; use NoHedge or heston_hedge.ModelHedge"
            )
        self.units, self._dynamics = Units(dynamics), dynamics

    def delta(self, seen: Seen) -> Floats:
        return call_delta(seen.spot, self._dynamics.strike, self._dynamics.volatility, self._tau(seen))

    def gamma(self, seen: Seen) -> Floats:
        return call_gamma(seen.spot, self._dynamics.strike, self._dynamics.volatility, self._tau(seen))

    def _tau(self, seen: Seen) -> Floats:
        # On the day of expiry nothing is decided any more; one hour keeps the formulas finite for who draws them there.
        result: Floats = np.maximum((self._dynamics.n_steps - seen.day) * self._dynamics.dt, self._dynamics.dt / 24.0)
        return result


def _nearest_edge(seen: Seen, delta: Floats, width: Floats) -> Floats:
    held = seen.position[:, 0]
    moved: Floats = np.clip(np.minimum(np.maximum(held, delta - width), delta + width), 0.0, 1.0)
    return moved[:, None]
