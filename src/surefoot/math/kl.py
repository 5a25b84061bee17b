"""KL divergence of the new policy from the old one: estimators from log-ratios, and exact forms (P03).

Estimators take the log-ratio d = log π_new(a|s) − log π_old(a|s) of actions drawn from the *old* policy, and
estimate KL(π_old ‖ π_new). All three are per sample. k1 and k3 are unbiased; k1 is noisy and may be negative,
k3 is never below 0. Source: Schulman 2020, http://joschu.net/blog/kl-approx.html.
"""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.math.surrogate import LOG_RATIO_BOUND

_SERIES_RADIUS, _SINGLE_PRECISION_RADIUS = 0.1, 0.5
"""Beyond the second one, the plain difference keeps its digits in float32 too."""
_SERIES = tuple(1.0 / f for f in (362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0))


def k1(log_ratio: Tensor) -> Tensor:
    """−d: unbiased, noisy, of either sign."""
    return -log_ratio


def k2(log_ratio: Tensor) -> Tensor:
    """d²/2: biased, low variance; its gradient is that of the KL at d = 0."""
    return 0.5 * log_ratio * log_ratio


def k3(log_ratio: Tensor) -> Tensor:
    """exp(d) − 1 − d: unbiased, never below 0, elementwise in the dtype given.

    Above d = 20 the value stays at that of d = 20 (4.9e8), so it is finite for every finite d; below, it is
    exact on the whole negative side. The difference loses half its digits near 0, where a series is used.
    """
    d = log_ratio.clamp(max=LOG_RATIO_BOUND)
    x, radius = (d, _SERIES_RADIUS) if d.dtype == torch.float64 else (d.to(torch.float32), _SINGLE_PRECISION_RADIUS)
    is_near = x.abs() < radius
    near = _series(x.clamp(-radius, radius))
    return torch.where(is_near, near, torch.exp(x) - (1.0 + x)).to(d.dtype)


def categorical_kl(log_probs_p: Tensor, log_probs_q: Tensor) -> Tensor:
    """KL(p ‖ q) = Σ_k p_k·(log p_k − log q_k) from normalized log-probabilities [B, K] -> [B].

    An action that p never takes (log-probability −inf, or the masked stand-in for it) adds nothing and no
    NaN; one that only p takes makes the result infinite, or as large as its stand-in.
    """
    return relative_entropy_terms(log_probs_p, log_probs_q).sum(-1)


def gaussian_kl(mean_p: Tensor, log_std_p: Tensor, mean_q: Tensor, log_std_q: Tensor) -> Tensor:
    """KL(p ‖ q) of diagonal Gaussians, [B, D] each (or broadcastable to it) -> [B].

          Σ_d log(σ_q/σ_p) + (σ_p² + (μ_p − μ_q)²)/(2σ_q²) − ½
        = ½ Σ_d k3(2·log(σ_p/σ_q)) + ((μ_p − μ_q)/σ_q)²

    The second form has no cancellation and is never below 0. σ_p/σ_q above exp(10) counts as exp(10).
    """
    standardized = (mean_p - mean_q) * torch.exp(-log_std_q)
    return 0.5 * (k3(2.0 * (log_std_p - log_std_q)) + standardized * standardized).sum(-1)


def bernoulli_kl(logits_p: Tensor, logits_q: Tensor) -> Tensor:
    """KL(p ‖ q) of independent Bernoulli variables from finite logits [B, D], summed over D -> [B]."""
    log_sigmoid = torch.nn.functional.logsigmoid
    ones = relative_entropy_terms(log_sigmoid(logits_p), log_sigmoid(logits_q))
    zeros = relative_entropy_terms(log_sigmoid(-logits_p), log_sigmoid(-logits_q))
    return (ones + zeros).sum(-1)


def beta_kl(alpha_p: Tensor, beta_p: Tensor, alpha_q: Tensor, beta_q: Tensor) -> Tensor:
    """KL(p ‖ q) of independent Beta variables with positive parameters [B, D], summed over D -> [B].

    ln B(α_q, β_q) − ln B(α_p, β_p) + (α_p − α_q)(ψ(α_p) − ψ(s_p)) + (β_p − β_q)(ψ(β_p) − ψ(s_p)),   s = α + β
    """
    total_p, total_q = alpha_p + beta_p, alpha_q + beta_q
    log_norm_p = torch.lgamma(alpha_p) + torch.lgamma(beta_p) - torch.lgamma(total_p)
    log_norm_q = torch.lgamma(alpha_q) + torch.lgamma(beta_q) - torch.lgamma(total_q)
    both = torch.digamma(total_p)
    divergence = (
        log_norm_q
        - log_norm_p
        + (alpha_p - alpha_q) * (torch.digamma(alpha_p) - both)
        + (beta_p - beta_q) * (torch.digamma(beta_p) - both)
    )
    return divergence.clamp(min=0.0).sum(-1)


def relative_entropy_terms(log_p: Tensor, log_q: Tensor) -> Tensor:
    """q − p − p·log(q/p), elementwise: sums to the KL of two normalized distributions, and no term is below 0."""
    p, q = torch.exp(log_p), torch.exp(log_q)
    # Where p = 0 the ratio is not read; 0 stands in, since its own value may be inf − inf.
    d = torch.where(p > 0, log_q - log_p, 0.0)
    is_near = d.abs() < _SERIES_RADIUS
    near = p * _series(d.clamp(-_SERIES_RADIUS, _SERIES_RADIUS))
    # Beyond the series only numbers too small for their digits can come out below 0.
    return torch.where(is_near & (p > 0), near, (q - p - p * d).clamp(min=0.0))


def _series(d: Tensor) -> Tensor:
    """exp(d) − 1 − d = d²·(1/2! + d/3! + d²/4! + …), to the accuracy of float64 for |d| ≤ 0.1, of float32 for ≤ 0.5."""
    total = d * _SERIES[0] + _SERIES[1]
    for coefficient in _SERIES[2:]:
        total = total * d + coefficient
    return d * d * total
