"""How prices move under the risk-neutral measure: a binomial tree, Black–Scholes, Heston. No interest, no dividends.

A dynamics knows nothing of positions. Its state is an array [rows, N] of float64, one column for each path: row 0 is
the spot, Heston has two more. ``reset`` and ``step`` move N paths by one numpy call each.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from surefoot.errors import ConfigError
from surefoot.hedging.heston_price import HestonParameters, call_price

Floats = npt.NDArray[np.float64]
Days = npt.NDArray[np.int64]
State = Floats

DAYS_PER_YEAR = 365


@dataclass(frozen=True)
class Dynamics(ABC):
    """A call is sold at the money, S₀ = K = ``strike``, and expires after ``n_steps`` days."""

    strike: float = 100.0
    n_steps: int = 30

    position_limits: ClassVar[tuple[float, ...]] = (1.0,)
    """The largest position in each instrument; the smallest is 0."""
    has_variance: ClassVar[bool] = False
    """Whether row 1 of the state is a variance that a hedger can see."""

    def __post_init__(self) -> None:
        if self.n_steps < 1:
            raise ConfigError(f"n_steps = {self.n_steps}: an option lives for at least one day")
        if not (math.isfinite(self.strike) and self.strike > 0):
            raise ConfigError(f"strike = {self.strike}: a strike is a positive number")

    @property
    def dt(self) -> float:
        """One day, in years."""
        return 1.0 / DAYS_PER_YEAR

    @property
    @abstractmethod
    def volatility(self) -> float:
        """Annual volatility at the start: what log(S/K) is measured in, together with the time to maturity."""

    @property
    def log_scale(self) -> float:
        """Standard deviation of log(S/K) at maturity, for a volatility that stays as it is at the start."""
        return self.volatility * math.sqrt(self.n_steps * self.dt)

    @cached_property
    def premiums(self) -> Floats:
        """[n_steps + 1]: risk-neutral price of a call at the money with so many days to go."""
        return np.array([0.0, *(self._premium(days) for days in range(1, self.n_steps + 1))])

    @property
    def premium(self) -> float:
        """Risk-neutral price of the option on day 0."""
        return float(self.premiums[-1])

    @abstractmethod
    def _premium(self, days: int) -> float:
        """Risk-neutral price of a call at the money ``days`` days before it expires."""

    def reset(self, rng: np.random.Generator, n: int) -> State:
        """[rows, n]: paths at their start."""
        return np.full((1, n), self.strike)

    @abstractmethod
    def step(self, rng: np.random.Generator, state: State) -> State:
        """The paths one day later, as a new array."""

    def prices(self, state: State, day: Days) -> Floats:
        """[instruments, N]: what one unit of each instrument is worth on ``day`` [N]."""
        return state[:1]

    def payoff(self, state: State) -> Floats:
        """[N]: what the seller of the call owes at maturity."""
        result: Floats = np.maximum(state[0] - self.strike, 0.0)
        return result


@dataclass(frozen=True)
class _ConstantVolatility(Dynamics):
    sigma: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_volatility(self.sigma)

    @property
    def volatility(self) -> float:
        return self.sigma


@dataclass(frozen=True)
class BlackScholes(_ConstantVolatility):
    """Geometric Brownian motion, S·exp(−σ²dt/2 + σ√dt·Z): exact at the daily dates."""

    def _premium(self, days: int) -> float:
        """At the money and without interest d₁ = −d₂ = σ√τ/2, so the price is K·(2Φ(d₁) − 1)."""
        return self.strike * (2.0 * NormalDist().cdf(0.5 * self.sigma * math.sqrt(days * self.dt)) - 1.0)

    def step(self, rng: np.random.Generator, state: State) -> State:
        moved = rng.standard_normal(state.shape)
        moved *= self.sigma * math.sqrt(self.dt)
        moved -= 0.5 * self.sigma**2 * self.dt
        np.exp(moved, out=moved)
        moved *= state
        return moved


@dataclass(frozen=True)
class BinomialTree(_ConstantVolatility):
    """Cox–Ross–Rubinstein: each day up by u = exp(σ√dt) with probability (1 − 1/u)/(u − 1/u), else down by 1/u.

    A hedge that knows the tree replicates the call exactly, so that the best loss is 0 at every level of CVaR.
    """

    @property
    def up(self) -> float:
        return math.exp(self.sigma * math.sqrt(self.dt))

    @property
    def probability(self) -> float:
        """Of going up, so that the spot is a martingale."""
        return (1.0 - 1.0 / self.up) / (self.up - 1.0 / self.up)

    def values(self, days: int) -> list[Floats]:
        """Values of the call in a tree of ``days`` days: entry t is [t + 1], of day t by the number of ups."""
        spots = self.strike * self.up ** np.arange(-days, days + 1.0, 2.0)
        found = [np.maximum(spots - self.strike, 0.0)]
        for _ in range(days):
            later = found[-1]
            found.append(self.probability * later[1:] + (1.0 - self.probability) * later[:-1])
        return found[::-1]

    def _premium(self, days: int) -> float:
        return float(self.values(days)[0][0])

    def step(self, rng: np.random.Generator, state: State) -> State:
        goes_up = rng.random(state.shape) < self.probability
        moved: Floats = np.where(goes_up, self.up, 1.0 / self.up)
        moved *= state
        return moved


@dataclass(frozen=True)
class Heston(Dynamics):
    """dV = α(b − V)dt + σ√V dB, dS = S√V dW, corr ρ; as in Buehler et al. 2019, section 5 (arXiv 1802.03042).

    Rows of the state: spot, variance, variance realized since the start. The variance is drawn exactly, from the
    non-central chi-square of the CIR process. The spot follows Broadie and Kaya 2006 with the integral of the variance
    over a day replaced by the trapezoid ½(V + V′)dt, given both ends:

        log S′ = log S − ½I + (ρ/σ)·(V′ − V − αb·dt + αI) + √((1 − ρ²)·I)·Z,    I = ½(V + V′)·dt

    With daily steps this prices the call at the money within Monte-Carlo error of the characteristic function (1.6918).

    The second instrument is an idealized variance swap, which pays ∫₀ᵀ V dt: its worth is what was realized so far plus

        L(t, V) = (V − b)/α·(1 − exp(−α(T − t))) + b·(T − t)

    Its hedge ratio is in the hundreds, hence positions up to 1000.
    """

    reversion: float = 1.0
    """α: how fast the variance returns to its mean."""
    mean_variance: float = 0.04
    """b."""
    correlation: float = -0.7
    """ρ, of spot and variance."""
    vol_of_vol: float = 2.0
    """σ."""
    start_variance: float = 0.04
    """V₀."""

    position_limits: ClassVar[tuple[float, ...]] = (1.0, 1000.0)
    has_variance: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("reversion", "mean_variance", "vol_of_vol", "start_variance"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{name} = {value}: must be a positive number")
        if not -1.0 < self.correlation < 1.0:
            raise ConfigError(f"correlation = {self.correlation}: must lie between -1 and 1")

    @property
    def volatility(self) -> float:
        return math.sqrt(self.start_variance)

    @property
    def parameters(self) -> HestonParameters:
        return HestonParameters(self.reversion, self.mean_variance, self.correlation, self.vol_of_vol)

    def _premium(self, days: int) -> float:
        return self.strike * call_price(self.parameters, days * self.dt, self.start_variance)

    def reset(self, rng: np.random.Generator, n: int) -> State:
        state = np.zeros((3, n))
        state[0], state[1] = self.strike, self.start_variance
        return state

    def step(self, rng: np.random.Generator, state: State) -> State:
        alpha, rho, sigma, dt = self.reversion, self.correlation, self.vol_of_vol, self.dt
        scale = sigma**2 * -math.expm1(-alpha * dt) / (4.0 * alpha)
        spot, before, realized = state
        after = scale * rng.noncentral_chisquare(
            4.0 * alpha * self.mean_variance / sigma**2, before * (math.exp(-alpha * dt) / scale)
        )
        integral = (before + after) * (0.5 * dt)
        log_return = (alpha * rho / sigma - 0.5) * integral + (rho / sigma) * (
            after - before - alpha * self.mean_variance * dt
        )
        log_return += np.sqrt((1.0 - rho**2) * integral) * rng.standard_normal(spot.shape)
        return np.stack([spot * np.exp(log_return), after, realized + integral])

    def prices(self, state: State, day: Days) -> Floats:
        left = (self.n_steps - day) * self.dt
        to_come = (state[1] - self.mean_variance) * swap_vega(self.reversion, left) + self.mean_variance * left
        return np.stack([state[0], state[2] + to_come])


DYNAMICS: dict[str, Callable[[], Dynamics]] = {"tree": BinomialTree, "black_scholes": BlackScholes, "heston": Heston}


def dynamics_named(dynamics: str | Dynamics) -> Dynamics:
    """By name, with the parameters of the published worlds; an instance is taken as it is."""
    if isinstance(dynamics, Dynamics):
        return dynamics
    if dynamics not in DYNAMICS:
        raise ConfigError(f"dynamics = {dynamics!r} is unknown; choose one of {', '.join(DYNAMICS)}")
    return DYNAMICS[dynamics]()


def swap_vega(reversion: float, left: npt.NDArray[np.floating[Any]]) -> Floats:
    """∂L/∂V of the variance swap with ``left`` years to go: (1 − exp(−α·left))/α."""
    result: Floats = -np.expm1(-reversion * left) / reversion
    return result


def _require_volatility(sigma: float) -> None:
    if not (math.isfinite(sigma) and sigma > 0):
        raise ConfigError(f"sigma = {sigma}: a volatility is a positive number")
