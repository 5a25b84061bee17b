"""The tail of a sample of returns, and how its advantages join those of the mean (R02).

CVaR_α(R) = max_ν ν + E[min(R − ν, 0)]/α, and the best ν is VaR_α (Rockafellar, Uryasev 2000, "Optimization of
conditional value-at-risk"). So, with ν held fixed,

    ∇CVaR_α(R) = E[ min(R − ν, 0)/α · Σ_t ∇ log π(a_t | s_t) ]

which is the gradient of Tamar et al. 2015, https://arxiv.org/abs/1404.3862, valid for distributions with atoms too.
`risk.shortfall` makes of min(R − ν, 0)/α a reward of every step.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from surefoot.math.risk import cvar_from_samples, var_from_samples

TIE = 1e-6
"""Returns closer than this share of their range are one value: sums of the same rewards in another order are."""


class Tail(NamedTuple):
    """The worst share of a sample of returns; 0-dim tensors but for the level."""

    level: float
    """The share: α, or more if the worst α are all alike."""
    var: Tensor
    cvar: Tensor


def tail_of(sample: Tensor, alpha: float) -> Tail:
    """The tail of n returns [n] that tells how to get out of it.

    If more than α of the returns equal the worst one, CVaR_α is that return and its gradient is 0: the policy could get
    a little better or a little worse, and CVaR_α would not notice. Then the level is the share of the worst return, and
    VaR the next better one, so that the advantage is that of making the worst outcome rarer. If all returns are alike
    there is no such value, and every advantage is 0.
    """
    var, cvar = var_from_samples(sample, alpha), cvar_from_samples(sample, alpha)
    worst = sample.min()
    beyond_ties = worst + TIE * (sample.max() - worst)
    if bool(var > beyond_ties) or bool(sample.max() <= beyond_ties):
        return Tail(alpha, var, cvar)
    level = float((sample <= beyond_ties).double().mean())
    return Tail(level, sample[sample > beyond_ties].min(), sample[sample <= beyond_ties].mean())


def shortfall(x: Tensor, tail: Tail) -> Tensor:
    """u(x) = min(0, x − VaR)/level, any shape: VaR + E[u(R)] is CVaR, and E[u(R)·∇log π] its policy gradient."""
    return (x - tail.var).clamp(max=0.0) / tail.level


def standard_error(sample: Tensor, tail: Tail) -> float:
    """Of the CVaR of n values [n]: the standard deviation of min(R − VaR, 0)/level by √n; 0 of one value.

    The error of VaR itself enters only in second order, because CVaR is a maximum over it.
    """
    n = sample.numel()
    return float(shortfall(sample, tail).std()) / n**0.5 if n > 1 else 0.0


def lagrangian_advantages(advantages: Tensor, constrained: Tensor, multiplier: float) -> Tensor:
    """(A + λ·A_constraint)/(1 + λ): the advantage of the Lagrangian, at a size that does not grow with λ.

    ``constrained`` is that of the quantity that must be large; for a cost, that of its negative.
    """
    return (advantages + multiplier * constrained) / (1.0 + multiplier)
