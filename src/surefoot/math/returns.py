"""Advantages and return targets from an ordered rollout (A01, A02, A03)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def gae(
    rewards: Tensor,
    values: Tensor,
    successor_values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    gae_lambda: float,
    valid: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation with termination and truncation kept apart.

        δ_t = r_t + γ·(1 − terminated_t)·V(s'_t) − V(s_t)
        A_t = δ_t + γλ·(1 − done_t)·A_{t+1},   done = terminated or truncated,   A_T = 0
        R_t = A_t + V(s_t)

    `successor_values[t]` is the value of the *true* successor of step t: for a truncated step the episode's
    final observation, never the first of the next episode. For a terminated step it is ignored, whatever it
    holds.

    A row with `valid == False` is no transition (a Gymnasium NEXT_STEP reset row): its advantage and its
    return are 0, no trace passes through it, and nothing in it is read.

    All arguments are [T, N]; flags may be bool or 0/1 of any dtype. The result keeps the dtype of the inputs.
    Source: Schulman et al. 2016, https://arxiv.org/abs/1506.02438 (eq. 16); Pardo et al. 2018,
    https://arxiv.org/abs/1712.00378 (bootstrapping at time limits).

    Returns `(advantages, returns)`, both [T, N].
    """
    _require_equal_shapes(rewards, values, successor_values, terminated, truncated, valid)
    has_no_future = terminated.bool()
    cut = has_no_future | truncated.bool()
    # `where`, not multiplication: 0·inf would carry a bad successor value across a termination.
    deltas = rewards + gamma * torch.where(has_no_future, 0.0, successor_values) - values
    if valid is None:
        advantages = _discounted_trace(deltas, cut, gamma * gae_lambda)
        return advantages, advantages + values
    is_step = valid.bool()
    advantages = _discounted_trace(torch.where(is_step, deltas, 0.0), cut | ~is_step, gamma * gae_lambda)
    return advantages, torch.where(is_step, advantages + values, 0.0)


def _discounted_trace(deltas: Tensor, cut: Tensor, decay: float) -> Tensor:
    """A_t = δ_t + decay·A_{t+1}, or δ_t where `cut`. All [T, N]."""
    # In numpy, whose calls cost a fraction of torch's; a row has few numbers.
    computed = deltas.dtype if deltas.dtype == torch.float64 else torch.float32
    traces, cuts = deltas.detach().cpu().to(computed, copy=True).numpy(), cut.cpu().numpy()
    is_cut: list[bool] = np.logical_or.reduce(cuts, 1).tolist()
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is named by who asked
        for t in range(len(traces) - 2, -1, -1):
            later = traces[t + 1] * traces.dtype.type(decay)
            if is_cut[t]:
                later[cuts[t]] = 0.0
            traces[t] += later
    return torch.from_numpy(traces).to(deltas)


def _require_equal_shapes(rewards: Tensor, *others: Tensor | None) -> None:
    if rewards.dim() != 2:
        raise ValueError(f"gae expects [T, N] tensors; rewards has shape {tuple(rewards.shape)}")
    for other in others:
        if other is not None and other.shape != rewards.shape:
            raise ValueError(
                f"gae expects one shape [T, N] for all tensors; "
                f"rewards has {tuple(rewards.shape)}, another has {tuple(other.shape)}"
            )
