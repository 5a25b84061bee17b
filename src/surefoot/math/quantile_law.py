"""Quantile regression on a whole law as target, without looking at every pair (C04)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from surefoot.math.quantile import midpoints


def sorted_huber_loss(quantiles: Tensor, targets: Tensor, kappa: float) -> Tensor:
    """`quantile.huber_loss` for targets [B, M] in ascending order, of which each row is M equally likely values; [B].

    Targets below q − κ, from there to q, from q to q + κ and above are four runs of the sorted row, and what a run adds
    to the loss of q follows from its count, sum and sum of squares. So a row costs N·log M and not N·M. The targets are
    data: no gradient flows into them.
    """
    n, m = quantiles.shape[1], targets.shape[1]
    centre = targets.mean(1, keepdim=True)
    # Sums of squares are differences of running ones; around the centre little is lost in them.
    y = (targets - centre).detach().contiguous()
    q = quantiles - centre.detach()
    total, squares = F.pad(y.cumsum(1), (1, 0)), F.pad((y * y).cumsum(1), (1, 0))
    place = q.detach().contiguous()
    middle = torch.searchsorted(y, place)
    low = torch.searchsorted(y, place - kappa) if kappa else middle
    high = torch.searchsorted(y, place + kappa) if kappa else middle
    far_below = low * (q - 0.5 * kappa) - total.gather(1, low)
    far_above = (total[:, -1:] - total.gather(1, high)) - (m - high) * (q + 0.5 * kappa)
    levels = midpoints(n, dtype=q.dtype, device=q.device)
    if not kappa:
        return ((1.0 - levels) * far_below + levels * far_above).mean(1) / m
    near_below = _half_squares(q, low, middle, total, squares) / kappa
    near_above = _half_squares(q, middle, high, total, squares) / kappa
    return ((1.0 - levels) * (far_below + near_below) + levels * (far_above + near_above)).mean(1) / m


def _half_squares(q: Tensor, begin: Tensor, end: Tensor, total: Tensor, squares: Tensor) -> Tensor:
    """½·Σ (y_j − q)² over the run from `begin` to `end` of each row, by its count, sum and sum of squares."""
    run_sum = total.gather(1, end) - total.gather(1, begin)
    run_squares = squares.gather(1, end) - squares.gather(1, begin)
    return 0.5 * ((end - begin) * q * q - 2.0 * q * run_sum + run_squares)
