"""A critic's output layer fitted to a distribution that is known."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.critics.base import Critic


def fit(critic: Critic, sample: Tensor, steps: int = 400, rate: float = 0.05) -> Tensor:
    """Train on a sample [B] of one state's returns, whose feature is 1, and give the prediction [1, K] afterwards."""
    seen, valid = torch.ones(len(sample), 1), torch.ones(len(sample), 1, dtype=torch.bool)
    critic.update_statistics(sample[:, None], valid)
    # A short memory of the gradient's size: it falls by orders of magnitude on the way.
    optimizer = torch.optim.Adam(critic.parameters(), rate, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    zero = torch.zeros(len(sample), 1)
    wanted = critic.targets(sample[:, None], zero, zero, critic(seen).detach()[:, None])[:, 0]
    for _ in range(steps):
        prediction = critic(seen)
        optimizer.zero_grad()
        critic.loss(prediction, prediction.detach(), wanted, None).loss.mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    fitted: Tensor = critic(seen[:1])
    return fitted.detach()


def normal_sample(n: int = 2000) -> Tensor:
    """n equally likely values that stand for N(0, 1) as evenly as n values can."""
    values: Tensor = torch.special.ndtri((torch.arange(n) + 0.5) / n)
    return values
