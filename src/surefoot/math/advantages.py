"""Advantage normalization that never amplifies rounding noise (A04, A05, A06).

(A − mean)/std with the sample standard deviation (ddof = 1, as `torch.std`). The std counts as zero when
it does not exceed `SPREAD_TOLERANCE_EPS` machine epsilons of the largest magnitude involved: below that, what
differs between the entries is rounding, and dividing by it would turn rounding into a training signal. The
rule is free of scale: multiplying all advantages by any positive number changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

SPREAD_TOLERANCE_EPS = 8.0
"""Smallest meaningful std, in units of `finfo(dtype).eps` × largest magnitude."""


def normalize(
    advantages: Tensor,
    valid: Tensor | None = None,
    magnitude: Tensor | float = 0.0,
    least_std: Tensor | float = 0.0,
    by_env: bool = False,
) -> Tensor:
    """(A − mean)/std over all valid entries; zeros where invalid, and everywhere if the std is zero.

    `advantages` and `valid` have one shape, [T, N] or [B]; `by_env` does it within each column of [T, N]. `magnitude`
    is the size of the numbers the advantages are differences of (for example max |return|): A = R − V of size 1e-3
    from R of size 1e6 is rounding noise in float32, which A alone cannot show. A std below `least_std` is replaced by
    that, so that small advantages stay small. NaN or Inf in a valid entry gives NaN everywhere: it is not hidden.
    """
    if advantages.numel() == 0:
        return advantages
    standardized, is_flat = _standardize(advantages, valid, over(advantages, by_env), magnitude, least_std)
    return torch.where(is_flat, 0.0, standardized)


def std_is_zero(
    advantages: Tensor, valid: Tensor | None = None, magnitude: Tensor | float = 0.0, by_env: bool = False
) -> Tensor:
    """Whether `normalize` answers with zeros because nothing meaningful varies: bool, 0-dim, or [N] with `by_env`."""
    shape = advantages.shape[1:] if by_env else ()
    if advantages.numel() == 0:
        return torch.ones(shape, dtype=torch.bool, device=advantages.device)
    return _standardize(advantages, valid, over(advantages, by_env), magnitude)[1].reshape(shape)


def over(x: Tensor, by_env: bool) -> tuple[int, ...]:
    """The dimensions that are reduced: time alone, or all."""
    return (0,) if by_env else tuple(range(x.dim()))


def _standardize(
    advantages: Tensor,
    valid: Tensor | None,
    dims: tuple[int, ...],
    magnitude: Tensor | float,
    least_std: Tensor | float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Standardized entries (meaningless where flat) and flat flags, `dims` kept as size 1."""
    mask = torch.ones_like(advantages, dtype=torch.bool) if valid is None else valid.bool()
    entries = torch.where(mask, advantages, 0.0)
    largest = entries.abs().amax(dims, keepdim=True)
    # Unit magnitude first: the squares below can then neither overflow nor underflow.
    unit = torch.where(largest == 0, 1.0, largest)
    scaled = entries / unit
    count = mask.sum(dims, keepdim=True)
    deviations = _centred(_centred(scaled, mask, count, dims), mask, count, dims)
    std = ((deviations * deviations).sum(dims, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    tolerance = SPREAD_TOLERANCE_EPS * torch.finfo(advantages.dtype).eps * (magnitude / unit).clamp(min=1.0)
    # Written so that NaN is not "flat".
    is_flat = (std <= tolerance) | (count < 2)
    return deviations / torch.where(is_flat, 1.0, torch.maximum(std, least_std / unit)), is_flat


def _centred(entries: Tensor, mask: Tensor, count: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Entries minus their mean; invalid ones stay 0. Applied twice it removes the mean's own rounding."""
    mean = entries.sum(dims, keepdim=True) / count.clamp(min=1)
    return torch.where(mask, entries - mean, 0.0)
