"""The hedge of the Heston model: stock and variance swap by the sensitivities of the model's price.

In continuous time and without costs it replicates the call (Buehler et al. 2019, section 5.2):

    stock = ∂u/∂S,    swap = ∂u/∂V ÷ ∂L/∂V

u the model's price and L the value of what the swap still has to pay. Daily trading leaves the rest. The sensitivities
are integrals over the characteristic function, tabulated once and interpolated between.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from surefoot.hedging.dynamics import Floats, Heston, swap_vega
from surefoot.hedging.heston_price import HestonParameters, exponents
from surefoot.hedging.observation import Units

VOLATILITIES = np.linspace(0.0, 1.5, 31)
STRETCHED = np.linspace(-5.0, 5.0, 121)
"""The grid of asinh(x/NARROW), x = log(S/K): fine at the money, where the sensitivities turn, up to |x| = 0.37."""
NARROW = 0.005


class ModelHedge:
    """Positions [N, 2] in stock and variance swap; it knows the parameters of the model and sees its variance."""

    def __init__(self, dynamics: Heston) -> None:
        self._units, self._dynamics = Units(dynamics), dynamics
        x = NARROW * np.sinh(STRETCHED)
        left = (dynamics.n_steps - np.arange(dynamics.n_steps)) * dynamics.dt
        grid = Sensitivities(dynamics.parameters, VOLATILITIES**2, x)
        tables = [grid.at(float(tau)) for tau in left]
        vega = swap_vega(dynamics.reversion, left)[:, None, None]
        self._stock = np.stack([delta for delta, _ in tables])
        self._swap = np.stack([by_variance for _, by_variance in tables]) * dynamics.strike / vega

    def __call__(self, observation: npt.NDArray[np.float32]) -> Floats:
        seen = self._units.decode(observation)
        day = seen.day.astype(np.int64)
        row, row_share = _place(np.sqrt(seen.variance), VOLATILITIES)
        stretched = np.arcsinh(np.log(seen.spot / self._dynamics.strike) / NARROW)
        column, column_share = _place(stretched, STRETCHED)
        found = []
        for table, limit in zip((self._stock, self._swap), self._dynamics.position_limits, strict=True):
            low = table[day, row, column] * (1 - column_share) + table[day, row, column + 1] * column_share
            high = table[day, row + 1, column] * (1 - column_share) + table[day, row + 1, column + 1] * column_share
            found.append(np.clip(low * (1 - row_share) + high * row_share, 0.0, limit))
        return np.stack(found, axis=1)


class Sensitivities:
    """∂u/∂S and ∂u/∂V of a call of strike 1 on a grid: the derivatives of `heston_price`'s integral.

    The integral is a matrix product, [variances, nodes] @ [nodes, x], whose second factor is the same for all days.
    """

    def __init__(self, parameters: HestonParameters, variances: Floats, x: Floats) -> None:
        self._parameters, self._variances, self._x = parameters, variances[:, None], x
        points, weights = np.polynomial.legendre.leggauss(12)
        # Pieces of width 16 resolve exp(iux) for |x| < ½. Beyond 4,000 only prices within 1/4,000 of the strike differ.
        self._u = (np.arange(8.0, 4000.0, 16.0)[:, None] + 8.0 * points).ravel()
        mass = np.tile(8.0 * weights, len(self._u) // len(points)) / (math.pi * (self._u**2 + 0.25))
        phase = np.outer(self._u, x)
        self._waves = np.concatenate([np.cos(phase), -np.sin(phase)]) * np.tile(mass, 2)[:, None]

    def at(self, tau: float) -> tuple[Floats, Floats]:
        """Each [variances, x], with ``tau`` years to go."""
        c, d = exponents(self._parameters, self._u - 0.5j, tau)
        phi = np.exp(c + self._variances * d)
        return (
            1.0 - np.exp(-0.5 * self._x) * self._integral(phi * (0.5 + 1j * self._u)),
            -np.exp(0.5 * self._x) * self._integral(phi * d),
        )

    def _integral(self, integrand: npt.NDArray[np.complex128]) -> Floats:
        result: Floats = np.concatenate([integrand.real, integrand.imag], axis=1) @ self._waves
        return result


def _place(value: Floats, grid: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """The cell of an equidistant grid, and where in it; outside, the border."""
    scaled = np.clip((value - grid[0]) / (grid[1] - grid[0]), 0.0, len(grid) - 1.0)
    cell = np.minimum(scaled.astype(np.int64), len(grid) - 2)
    return cell, scaled - cell
