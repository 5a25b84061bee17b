"""Mergeable running mean and variance in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Count (0-dim), mean and sum of squared deviations (feature shape) of everything seen; all float64."""

    count: Tensor
    mean: Tensor
    m2: Tensor

    @staticmethod
    def empty(shape: Sequence[int] = (), device: torch.device | str | None = None) -> Moments:
        """The moments of nothing: the neutral element of `merge`."""
        zeros = torch.zeros(tuple(shape), dtype=torch.float64, device=device)
        return Moments(torch.zeros((), dtype=torch.float64, device=device), zeros, zeros.clone())

    @staticmethod
    def from_batch(x: Tensor, valid: Tensor | None = None) -> Moments:
        """Two-pass moments of a batch.

        Without `valid`, x is [B, *features]. With `valid` [B] or [T, N], x is [*valid.shape, *features] and
        only the valid rows count; the others may hold anything.
        """
        rows = x.detach().to(torch.float64)
        if valid is not None:
            rows = rows[valid.bool()]
        count = torch.tensor(float(rows.shape[0]), dtype=torch.float64, device=x.device)
        mean = rows.sum(0) / count.clamp(min=1.0)
        deviations = rows - mean
        # The second term removes what rounding left in the mean (corrected two-pass algorithm).
        m2 = (deviations * deviations).sum(0) - deviations.sum(0) ** 2 / count.clamp(min=1.0)
        return Moments(count, mean, m2.clamp(min=0.0))

    @property
    def variance(self) -> Tensor:
        """Population variance m2/count (ddof = 0); 0 if nothing was seen."""
        return self.m2 / self.count.clamp(min=1.0)

    @property
    def std(self) -> Tensor:
        """Square root of `variance`."""
        return self.variance.sqrt()


def merge(a: Moments, b: Moments) -> Moments:
    """The moments of the union of what `a` and `b` have seen, in any order and grouping.

        n = n_a + n_b,   δ = μ_b − μ_a,   μ = μ_a + δ·n_b/n,   M = M_a + M_b + δ²·n_a·n_b/n

    Source: Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance" (eq. 2.1).
    """
    count = a.count + b.count
    share = b.count / count.clamp(min=1.0)
    delta = b.mean - a.mean
    return Moments(count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * (a.count * share))
