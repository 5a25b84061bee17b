"""Sums over whole episodes, which rollouts cut at arbitrary places."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class OpenSums(NamedTuple):
    """Of the episodes that are open between two rollouts."""

    total: Tensor
    """[N] float64, (discounted) sum so far."""
    length: Tensor
    """[N] float64, steps so far."""

    @staticmethod
    def empty(n_envs: int) -> OpenSums:
        """Every env stands before the first step of an episode."""
        return OpenSums(torch.zeros(n_envs, dtype=torch.float64), torch.zeros(n_envs, dtype=torch.float64))


def sum_episodes(x: Tensor, start: Tensor, valid: Tensor, gamma: float, before: OpenSums) -> tuple[Tensor, OpenSums]:
    """Σ_k γ^k·x_k over the steps of each episode so far, k counted from the episode's first step, wherever that lies.

    x, start, valid are [T, N]. A sum begins anew where ``start`` is True; so an episode that was lost half way leaves
    nothing behind. A row with `valid == False` is no step and adds nothing (A03). Answers with the sums [T, N] float64,
    each including its own step, and with what the next rollout goes on from.
    """
    values = torch.where(valid.bool(), x.to(torch.float64), 0.0)
    total, length = before
    totals = []
    for value, is_first, is_step in zip(values.unbind(0), start.bool().unbind(0), valid.bool().unbind(0), strict=True):
        length = torch.where(is_first, 0.0, length)
        total = torch.where(is_first, 0.0, total) + value * gamma**length
        totals.append(total)
        length = length + is_step
    return torch.stack(totals), OpenSums(total, length)


def spread_back(values: Tensor, start: Tensor, done: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Give each step the value at the last step of its episode.

    All [T, N]. Answers with these values, and with a mask of the steps whose episode ends within the rollout; the
    others, and rows that are no steps, have value 0 and mask False.
    """
    steps, ends, firsts = (flags.bool().flip(0).unbind(0) for flags in (valid, done, start))
    running, known = torch.zeros_like(values[0]), torch.zeros_like(steps[0])
    spread, reached = [], []
    for value, is_step, is_last, is_first in zip(values.flip(0).unbind(0), steps, ends, firsts, strict=True):
        running, known = torch.where(is_last, value, running), known | is_last
        counts = is_step & known
        spread.append(torch.where(counts, running, 0.0))
        reached.append(counts)
        known = known & ~is_first
    return torch.stack(spread).flip(0), torch.stack(reached).flip(0)
