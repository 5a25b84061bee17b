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
    firsts, steps = start.bool(), valid.bool().to(torch.float64)
    begin = _latest(firsts)
    earlier = steps.cumsum(0) - steps
    length = earlier - _at(earlier, begin, -before.length)
    values = torch.where(valid.bool(), x.to(torch.float64), 0.0) * gamma**length
    running = values.cumsum(0)
    totals = running - _at(running - values, begin, -before.total)
    return totals, OpenSums(totals[-1], length[-1] + steps[-1])


def broadcast_to_steps(values: Tensor, start: Tensor, done: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Give each step the value at the last step of its episode.

    All [T, N]. Answers with these values, and with a mask of the steps whose episode ends within the rollout; the
    others, and rows that are no steps, have value 0 and mask False.
    """
    n_steps = values.shape[0]
    ends = _next(done.bool())
    # The start of another episode before the next end: this one was lost half way.
    next_start = _next(torch.cat([start[1:], torch.zeros_like(start[:1])]).bool())
    reached = valid.bool() & (ends < n_steps) & (ends <= next_start)
    return torch.where(reached, values.gather(0, ends.clamp(max=n_steps - 1)), 0.0), reached


def _latest(flags: Tensor) -> Tensor:
    """Index of the latest True up to each row of [T, N]; −1 if there is none."""
    rows = torch.arange(flags.shape[0], device=flags.device).unsqueeze(1)
    return torch.where(flags, rows, -1).cummax(0).values


def _next(flags: Tensor) -> Tensor:
    """Index of the next True from each row of [T, N] on; T if there is none."""
    rows = torch.arange(flags.shape[0], device=flags.device).unsqueeze(1)
    return torch.where(flags, rows, flags.shape[0]).flip(0).cummin(0).values.flip(0)


def _at(x: Tensor, rows: Tensor, otherwise: Tensor) -> Tensor:
    """Entry ``rows[t, n]`` of column n, or ``otherwise[n]`` where that is −1."""
    return torch.where(rows >= 0, x.gather(0, rows.clamp(min=0)), otherwise)
