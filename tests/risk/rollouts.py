"""Rollouts written by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surefoot.config import RiskConfig, from_dict
from surefoot.risk.term import Estimated, Steps


def settings(kind: str, **more: Any) -> RiskConfig:
    """A valid section ``risk``."""
    return from_dict({"risk": {"kind": kind, **more}}).risk


def one_step_episodes(*returns: float, costs: tuple[float, ...] | None = None) -> Steps:
    """A rollout of one env in which every step is an episode."""
    reward = torch.tensor(returns)[:, None]
    yes = torch.ones_like(reward, dtype=torch.bool)
    cost = torch.zeros_like(reward) if costs is None else torch.tensor(costs)[:, None]
    return Steps(reward, cost, yes, yes, ~yes, yes)


def episodes(reward: Tensor, ends: Tensor, begins: bool = True) -> Steps:
    """A rollout [T, N] whose episodes terminate where ``ends`` says; the first may have begun before."""
    start = torch.full_like(ends, begins)
    start[1:] = ends[:-1]
    valid = torch.ones_like(ends)
    return Steps(reward, torch.zeros_like(reward), start, ends, torch.zeros_like(ends), valid)


def plain(steps: Steps, **more: Any) -> Estimated:
    """No advantages of the return, rewards in their own unit."""
    return Estimated(torch.zeros_like(steps.reward), 1.0, **more)
