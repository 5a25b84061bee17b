"""Black–Scholes price, delta and gamma of a call without interest, elementwise on arrays."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch

Floats = npt.NDArray[np.float64]


def normal_cdf(x: Floats) -> Floats:
    result: Floats = torch.special.ndtr(torch.from_numpy(np.ascontiguousarray(x))).numpy()
    return result


def call_price(spot: Floats, strike: float, sigma: float, tau: Floats) -> Floats:
    """S·Φ(d₁) − K·Φ(d₂) for ``tau`` > 0 years to maturity."""
    upper = _d1(spot, strike, sigma, tau)
    return spot * normal_cdf(upper) - strike * normal_cdf(upper - sigma * np.sqrt(tau))


def call_delta(spot: Floats, strike: float, sigma: float, tau: Floats) -> Floats:
    """∂price/∂S = Φ(d₁)."""
    return normal_cdf(_d1(spot, strike, sigma, tau))


def call_gamma(spot: Floats, strike: float, sigma: float, tau: Floats) -> Floats:
    """∂²price/∂S² = φ(d₁)/(S·σ√τ)."""
    d1 = _d1(spot, strike, sigma, tau)
    result: Floats = np.exp(-0.5 * d1**2) / (math.sqrt(2.0 * math.pi) * sigma * np.sqrt(tau) * spot)
    return result


def _d1(spot: Floats, strike: float, sigma: float, tau: Floats) -> Floats:
    deviation = sigma * np.sqrt(tau)
    result: Floats = np.log(spot / strike) / deviation + 0.5 * deviation
    return result
