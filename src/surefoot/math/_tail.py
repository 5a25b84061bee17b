"""The tail rule: a quantile function Q through N midpoint quantiles, and its CVaR and VaR.

In the normal score z = Φ⁻¹(u) the quantile function of a normal distribution is a straight line and that of a
log-normal distribution an exponential. So the rule takes Q straight in z from each quantile to the next, and below q_1

    Q(z) = q_0 + (q_1 − q_0)·E(g, z − z_0)/E(g, z_1 − z_0),   E(g, x) = (exp(gx) − 1)/g

with g the growth rate of the slope, read off q_0, q_k and q_2k (k = 3, less if N is small): 0 for a normal
distribution, negative for a heavier left tail, positive for a lighter one. g is kept in [−1, 3]; −1 is the tail of
−exp(N(0, 1)). Both pieces rise with z, so Q is a quantile function.

A slope that grows faster still (g < −1.2) is more likely a gap than a tail: a rare crash with nothing between
it and the ordinary. To extrapolate a gap invents losses, so from there the step rule takes over, wholly at
g ≤ −2 (`smoothness`).

Above level ½ each q_i stands for its own 1/N, and what the left tail took away is given back evenly, so that
CVaR_1 is the mean of the q_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

_NORMAL = NormalDist()
_MOST_HEAVY, _MOST_LIGHT = -1.0, 3.0
_GAP_STARTS, _GAP_FULL = -1.2, -2.0
_GROWTH_STRIDE = 3
_NODES = 24
_REACH = 9.0
"""How far below its upper end the tail integral is carried, in normal scores."""


Numbers = tuple[float, ...] | tuple[tuple[float, ...], ...]


class Functional(NamedTuple):
    """q_0 + Σ_i weight_i·(q_i − q_0) + (q_1 − q_0)·Σ_j node_weight_j·E(g, x_j)/E(g, z_1 − z_0); or L of such."""

    weights: Numbers
    node_offsets: Numbers
    node_weights: Numbers


def together(functionals: Sequence[Functional]) -> Functional:
    """L functionals of one form as one, for `evaluate` on quantiles [..., 1, N] -> [..., L]."""
    weights, offsets, node_weights = zip(*functionals, strict=True)
    return Functional(weights, offsets if offsets[0] else (), node_weights if node_weights[0] else ())


def evaluate(functional: Functional, ascending: Tensor) -> Tensor:
    """The functional's value for quantiles [..., N] in ascending order -> [...]."""
    first = ascending[..., :1]
    above_first = ascending - first
    weights = torch.as_tensor(functional.weights, dtype=ascending.dtype, device=ascending.device)
    value = first.squeeze(-1) + (above_first * weights).sum(-1)
    if not functional.node_weights:
        return value
    offsets = torch.as_tensor(functional.node_offsets, dtype=ascending.dtype, device=ascending.device)
    node_weights = torch.as_tensor(functional.node_weights, dtype=ascending.dtype, device=ascending.device)
    z = _scores(ascending.shape[-1])
    growth = _growth(above_first, z).clamp(_MOST_HEAVY, _MOST_LIGHT).unsqueeze(-1)
    reference = _exponential_line(growth, offsets.new_tensor([z[1] - z[0]]))
    tail = (node_weights * _exponential_line(growth, offsets) / reference).sum(-1)
    return value + above_first[..., 1] * tail


def smoothness(ascending: Tensor) -> Tensor:
    """How far the lowest quantiles [..., N] look like those of a smooth distribution: 1 yes, 0 a gap -> [...]."""
    growth = _growth(ascending - ascending[..., :1], _scores(ascending.shape[-1]))
    return ((growth - _GAP_FULL) / (_GAP_STARTS - _GAP_FULL)).clamp(0.0, 1.0)


@lru_cache(maxsize=256)
def cvar_functional(n: int, alpha: float) -> Functional:
    """(1/α)·∫_0^α Q(u) du for n quantiles."""
    if n == 1:
        return Functional((0.0,), (), ())
    tail_share = 1.0 if alpha <= 0.5 else 2.0 - 2.0 * alpha
    lower, offsets, node_weights = _lower_integral(n, min(alpha, 0.5))
    weights = [tail_share * w for w in lower]
    if alpha > 0.5:
        for i in range(n):
            below_half = min(max(0.5 - i / n, 0.0), 1.0 / n)
            below_alpha = min(max(alpha - i / n, 0.0), 1.0 / n)
            weights[i] += below_alpha - below_half + (2.0 * alpha - 1.0) * below_half
    return Functional(tuple(w / alpha for w in weights), offsets, tuple(tail_share * w / alpha for w in node_weights))


@lru_cache(maxsize=256)
def var_functional(n: int, alpha: float) -> Functional:
    """Q(α) for n quantiles; above the highest level it stays at the last quantile."""
    weights = [0.0] * n
    z = _scores(n)
    score = _NORMAL.inv_cdf(alpha) if alpha < 1.0 else z[-1]
    if n > 1 and score < z[1]:
        return Functional(tuple(weights), (score - z[0],), (1.0,))
    above = next((i for i in range(n) if z[i] >= score), n - 1)
    if above == 0 or score >= z[above]:
        weights[above] = 1.0
    else:
        share = (score - z[above - 1]) / (z[above] - z[above - 1])
        weights[above - 1], weights[above] = 1.0 - share, share
    return Functional(tuple(weights), (), ())


def _lower_integral(n: int, alpha: float) -> tuple[list[float], tuple[float, ...], tuple[float, ...]]:
    """∫_0^α (Q(u) − q_0) du as weights of q_i − q_0 and as nodes of the tail."""
    z = _scores(n)
    end = _NORMAL.inv_cdf(alpha)
    weights = [0.0] * n
    for i in range(1, n - 1):
        if end <= z[i]:
            break
        upper = min(end, z[i + 1])
        mass = _NORMAL.cdf(upper) - _NORMAL.cdf(z[i])
        # ∫ (z − z_i)·φ(z) dz, by φ' = −zφ.
        moment = _NORMAL.pdf(z[i]) - _NORMAL.pdf(upper) - z[i] * mass
        share = moment / (z[i + 1] - z[i])
        weights[i] += mass - share
        weights[i + 1] += share
    top = min(end, z[1])
    positions, quadrature = np.polynomial.legendre.leggauss(_NODES)
    nodes = [top - 0.5 * _REACH * (1.0 - float(x)) for x in positions]
    node_weights = tuple(0.5 * _REACH * float(w) * _NORMAL.pdf(x) for x, w in zip(nodes, quadrature, strict=True))
    return weights, tuple(x - z[0] for x in nodes), node_weights


@lru_cache(maxsize=64)
def _scores(n: int) -> tuple[float, ...]:
    return tuple(_NORMAL.inv_cdf((i + 0.5) / n) for i in range(n))


def _growth(above_first: Tensor, z: tuple[float, ...]) -> Tensor:
    """g = d log(dQ/dz)/dz near the lowest quantiles, [..., N] -> [...]; free of location and scale."""
    stride = min(_GROWTH_STRIDE, (len(z) - 1) // 2)
    if stride == 0:
        return torch.zeros_like(above_first[..., 0])
    total = above_first[..., 2 * stride]
    share = above_first[..., stride] / torch.where(total > 0, total, 1.0)
    # The small number bounds the logarithm where quantiles coincide.
    outer = share / (z[stride] - z[0]) + 1e-6
    inner = (1.0 - share) / (z[2 * stride] - z[stride]) + 1e-6
    growth = 2.0 * torch.log(outer / inner) / (z[0] - z[2 * stride])
    return torch.where(total > 0, growth, 0.0)


def _exponential_line(growth: Tensor, x: Tensor) -> Tensor:
    """E(g, x) = (exp(gx) − 1)/g, and x where g = 0; value and gradient are accurate for small gx."""
    y = growth * x
    is_small = y.abs() < 0.05
    near = x * (1.0 + y / 2.0 * (1.0 + y / 3.0 * (1.0 + y / 4.0 * (1.0 + y / 5.0))))
    far = torch.expm1(torch.where(is_small, 1.0, y)) / torch.where(is_small, 1.0, growth)
    return torch.where(is_small, near, far)
