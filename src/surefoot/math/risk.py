"""Tail functionals of returns: CVaR and VaR (R01, C05).

A low return is a bad one: CVaR_α is the mean of the worst share α, VaR_α the value that the share α does not
exceed. Every function sorts what it is given, works on the last dimension, keeps the others, and is
differentiable.
"""

from __future__ import annotations

import math
import warnings
from typing import Literal

import torch
from torch import Tensor

from surefoot.errors import SurefootWarning
from surefoot.math import _tail

Rule = Literal["tail", "step"]


def cvar_from_quantiles(q: Tensor, alpha: float, rule: Rule = "tail") -> Tensor:
    """CVaR_α of a distribution known by its midpoint quantiles q, [..., N] -> [...].

        step:  (1/αN)·[Σ_{i<k} q_(i) + (αN − k)·q_(k)],   k = ⌊αN⌋
        tail:  (1/α)·∫_0^α Q(u) du, with Q the quantile function through the q_(i) described in `_tail`

    `step` is exact for the distribution of N equal masses at q. `tail`, the default, takes q for quantiles of a smooth
    distribution, whose lowest 1/N reaches below q_(0), unless a gap among the lowest speaks against it; then it is the
    step rule. With exact quantiles of a normal distribution and N = 32, `step` is off by 4.3 % at α = 0.05 and by 19 %
    at α = 0.01, `tail` by less than 0.01 %; `tail` is closer in every cell of docs/risk-functionals.md. Both
    obey CVaR(aq + b) = a·CVaR(q) + b for a > 0, do not fall with α, and end at mean(q) for α = 1.

    αN < 1 warns: the result then rests on less than one quantile.
    """
    _check_alpha(alpha)
    n = q.shape[-1]
    _warn_if_thin(alpha, n, "quantiles")
    ascending = q.sort(dim=-1).values
    step = _step_cvar(ascending, alpha)
    if rule == "step":
        return step
    if rule == "tail":
        tail = _tail.evaluate(_tail.cvar_functional(n, float(alpha)), ascending)
        return torch.lerp(step, tail, _tail.smoothness(ascending))
    raise ValueError(f"rule must be 'tail' or 'step', got {rule!r}")


def var_from_quantiles(q: Tensor, alpha: float, rule: Rule = "tail") -> Tensor:
    """VaR_α of a distribution known by its midpoint quantiles q, [..., N] -> [...]; rules as in `cvar_from_quantiles`.

    `step`: q_(k) with k = ⌈αN⌉ − 1. `tail`: Q(α).
    """
    _check_alpha(alpha)
    n = q.shape[-1]
    _warn_if_thin(alpha, n, "quantiles")
    ascending = q.sort(dim=-1).values
    step = ascending[..., _step_index(alpha, n)]
    if rule == "step":
        return step
    if rule == "tail":
        tail = _tail.evaluate(_tail.var_functional(n, float(alpha)), ascending)
        return torch.lerp(step, tail, _tail.smoothness(ascending))
    raise ValueError(f"rule must be 'tail' or 'step', got {rule!r}")


MIXTURE_LEVELS, MIXTURE_THRESHOLDS = 65, 65
"""How finely a mixture's distributions and its threshold are looked at."""


def mixture_cvar_from_quantiles(q: Tensor, alpha: float) -> Tensor:
    """CVaR_α of the mixture of M equally likely distributions, each known by its midpoint quantiles q [M, N] -> 0-dim.

        CVaR_α = max_w w − mean_m E[(w − Z_m)⁺]/α,    E[(w − Z)⁺] = max_β β·(w − CVaR_β(Z))

    (Rockafellar, Uryasev 2000, and its conjugate), with CVaR_β of each by `cvar_from_quantiles`. It is never above the
    mean of the M CVaRs: the worst α of the mixture may be all of one distribution and nothing of another.
    """
    _check_alpha(alpha)
    levels = torch.logspace(math.log10(alpha / 32), 0.0, MIXTURE_LEVELS, dtype=q.dtype, device=q.device)
    cvar = _cvar_at_levels(q, [min(b, 1.0) for b in levels.tolist()])
    expected = levels[:, None] * cvar  # ∫₀^β Q_m  [L, M]
    low, high = cvar[0].min(), q.max()
    best = low
    for _ in range(3):  # the maximum is flat, and a finer look around it soon finds it
        w = torch.linspace(float(low), float(high), MIXTURE_THRESHOLDS, dtype=q.dtype, device=q.device)
        shortfall = (levels[None, :, None] * w[:, None, None] - expected[None]).amax(1)  # [W, M]
        value = w - shortfall.clamp(min=0.0).mean(1) / alpha
        index = int(value.argmax())
        best, low, high = value[index], w[max(index - 1, 0)], w[min(index + 1, len(w) - 1)]
    return best


def _cvar_at_levels(q: Tensor, levels: list[float]) -> Tensor:
    """`cvar_from_quantiles` of q [M, N] at L levels at once -> [L, M]."""
    ascending = q.sort(dim=-1).values.unsqueeze(-2)  # [M, 1, N]
    n = q.shape[-1]
    size = n * torch.tensor(levels, dtype=q.dtype, device=q.device)[:, None]
    taken = (size - torch.arange(n, device=q.device)).clamp(0.0, 1.0)  # [L, N]
    step = (ascending * taken).sum(-1) / size.squeeze(-1)
    tail = _tail.evaluate(_tail.together([_tail.cvar_functional(n, level) for level in levels]), ascending)
    return torch.lerp(step, tail, _tail.smoothness(ascending)).t()


def cvar_from_atoms(probs: Tensor, atoms: Tensor, alpha: float) -> Tensor:
    """CVaR_α of masses p at atoms z: (1/α)·[Σ_{i<k} p_i·z_i + (α − F_{k−1})·z_k], k the first with F_k ≥ α.

    `probs` [..., K], `atoms` [K] or [..., K] in any order -> [...].
    """
    _check_alpha(alpha)
    mass, ascending = _ascending_atoms(probs, atoms)
    before = mass.cumsum(-1) - mass
    taken = torch.minimum((alpha - before).clamp(min=0.0), mass)
    # The sum taken is α up to rounding; dividing by it keeps CVaR(z + b) = CVaR(z) + b.
    return (taken * ascending).sum(-1) / taken.sum(-1)


def cvar_from_samples(x: Tensor, alpha: float) -> Tensor:
    """CVaR_α of n equally likely observations, [..., n] -> [...]: the step rule of `cvar_from_quantiles`.

    αn < 1 warns and gives the smallest observation.
    """
    _check_alpha(alpha)
    _warn_if_thin(alpha, x.shape[-1], "samples")
    return _step_cvar(x.sort(dim=-1).values, alpha)


def var_from_samples(x: Tensor, alpha: float) -> Tensor:
    """VaR_α of n equally likely observations, [..., n] -> [...]: the ⌈αn⌉-th smallest."""
    _check_alpha(alpha)
    _warn_if_thin(alpha, x.shape[-1], "samples")
    return x.sort(dim=-1).values[..., _step_index(alpha, x.shape[-1])]


def mean_cvar(mean: Tensor, cvar: Tensor, cvar_weight: float) -> Tensor:
    """(1 − w)·mean + w·CVaR, elementwise: from risk-neutral (w = 0) to the tail alone (w = 1)."""
    if not 0.0 <= cvar_weight <= 1.0:
        raise ValueError(f"cvar_weight must lie in [0, 1], got {cvar_weight}")
    return (1.0 - cvar_weight) * mean + cvar_weight * cvar


def _step_cvar(ascending: Tensor, alpha: float) -> Tensor:
    n = ascending.shape[-1]
    weights = [min(max(alpha * n - i, 0.0), 1.0) / (alpha * n) for i in range(n)]
    return (ascending * torch.as_tensor(weights, dtype=ascending.dtype, device=ascending.device)).sum(-1)


def _step_index(alpha: float, n: int) -> int:
    """⌈αn⌉ − 1, where αn that is whole up to rounding counts as whole."""
    return max(math.ceil(alpha * n * (1.0 - 1e-12)) - 1, 0)


def _ascending_atoms(probs: Tensor, atoms: Tensor) -> tuple[Tensor, Tensor]:
    ascending, order = atoms.expand_as(probs).sort(dim=-1)
    return probs.gather(-1, order), ascending


def _check_alpha(alpha: float) -> None:
    if not 0.0 < alpha <= 1.0:
        raise ValueError(f"alpha must lie in (0, 1], got {alpha}")


def _warn_if_thin(alpha: float, n: int, what: str) -> None:
    if alpha * n < 1.0 - 1e-12:
        warnings.warn(
            f"alpha={alpha} of {n} {what} is less than one of them: the tail is a guess; "
            f"use at least {math.ceil(1.0 / alpha)} {what} or a larger alpha",
            SurefootWarning,
            stacklevel=3,
        )
