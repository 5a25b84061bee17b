"""Categoricals on a fixed ascending grid of atoms: targets, projection, support (C03)."""

from __future__ import annotations

import torch
from torch import Tensor


def two_hot(targets: Tensor, atoms: Tensor) -> Tensor:
    """The distribution on the grid with mass on the two atoms around each target and the target as its mean.

    `targets` [B], `atoms` [K] ascending, K ≥ 2, not necessarily evenly spaced -> probabilities [B, K]. A
    target beyond the grid goes to the end atom (`out_of_support` counts those). NaN gives NaN. Source:
    Farebrother et al. 2024, https://arxiv.org/abs/2403.03950 (section 3.1).
    """
    lower, share = _bracket(targets, atoms)
    return _spread(lower, share, atoms.shape[0])


def project(probs: Tensor, moved_atoms: Tensor, atoms: Tensor) -> Tensor:
    """A distribution on moved atoms brought back to the grid, each mass split between its two neighbours.

        p'_k = Σ_j p_j·Λ_k(z_j),   Λ_k the piecewise linear hat of atom k

    `probs` and `moved_atoms` [B, M] (M = K in most uses), `atoms` [K] ascending -> [B, K]. Total mass is
    kept; so is the mean, up to what lay beyond the ends of the grid. Differentiable in `probs` and, inside
    the grid, in `moved_atoms`. Source: Bellemare et al. 2017, https://arxiv.org/abs/1707.06887 (eq. 7).
    """
    lower, share = _bracket(moved_atoms, atoms)
    return (probs.unsqueeze(-1) * _spread(lower, share, atoms.shape[0])).sum(-2)


def out_of_support(targets: Tensor, atoms: Tensor) -> Tensor:
    """Whether each target lies beyond the ends of the grid: [B] -> bool [B]. NaN counts as outside."""
    return ~((targets >= atoms[0]) & (targets <= atoms[-1]))


def _bracket(values: Tensor, atoms: Tensor) -> tuple[Tensor, Tensor]:
    """Index of the atom at or below each value, at most K − 2, and the share of the next atom."""
    if atoms.dim() != 1 or atoms.shape[0] < 2:
        raise ValueError(f"atoms must be [K] with K >= 2, got shape {tuple(atoms.shape)}")
    inside = torch.clamp(values, atoms[0], atoms[-1])
    index = torch.searchsorted(atoms.contiguous(), inside.detach().contiguous(), right=True) - 1
    lower = index.clamp(0, atoms.shape[0] - 2)
    left, right = atoms[lower], atoms[lower + 1]
    return lower, (inside - left) / (right - left)


def _spread(lower: Tensor, share: Tensor, n_atoms: int) -> Tensor:
    """[...] indices and shares -> [..., K] masses: 1 − share on `lower`, share on the next."""
    position = torch.arange(n_atoms, device=lower.device) - lower.unsqueeze(-1)
    upper_share = share.unsqueeze(-1)
    return torch.where(position == 0, 1.0 - upper_share, torch.where(position == 1, upper_share, 0.0))
