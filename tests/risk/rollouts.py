"""Rollouts written by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surefoot.config import RiskConfig, from_dict
from surefoot.risk.term import Steps


def settings(kind: str, **more: Any) -> RiskConfig:
    """A valid section ``risk``."""
    return from_dict({"risk": {"kind": kind, **more}}).risk


def one_step_episodes(*returns: float, costs: tuple[float, ...] | None = None) -> Steps:
    """A rollout of one env in which every step is an episode."""
    reward = torch.tensor(returns)[:, None]
    yes = torch.ones_like(reward, dtype=torch.bool)
    cost = torch.zeros_like(reward) if costs is None else torch.tensor(costs)[:, None]
    none = torch.zeros_like(reward, dtype=torch.float64)
    return Steps(reward, cost, yes, yes, ~yes, yes, none, none + 1.0)


def episodes(reward: Tensor, ends: Tensor, begins: bool = True, discount: float = 1.0, earned: float = 0.0) -> Steps:
    """A rollout [T, N] whose episodes terminate where ``ends`` says; the first may have begun before, and ``earned``
    something."""
    start = torch.full_like(ends, begins)
    start[1:] = ends[:-1]
    valid = torch.ones_like(ends)
    running, weight = torch.full(reward.shape, earned).double(), torch.ones(reward.shape).double()
    for t in range(1, len(reward)):
        goes_on = ~ends[t - 1]
        running[t] = torch.where(goes_on, running[t - 1] + weight[t - 1] * reward[t - 1], 0.0)
        weight[t] = torch.where(goes_on, weight[t - 1] * discount, 1.0)
    return Steps(reward, torch.zeros_like(reward), start, ends, torch.zeros_like(ends), valid, running, weight)
