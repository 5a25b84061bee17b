"""What one update did, as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from surefoot.algo.coefficients import Coefficients
from surefoot.algo.heads import HeadRecord

TWIN_RATIO, TWIN_VANISHED = 100.0, 1e-8
"""Twin critics are unwell if their gradient norms differ by more than the first, or one is below the second."""


@dataclass(frozen=True)
class KLStop:
    """Where an update stopped because the policy had moved enough (P04)."""

    epoch: int
    minibatch: int
    kl: float


@dataclass(frozen=True)
class UpdateRecord:
    """Means are over all rows of all minibatches whose gradient was finite."""

    update: int
    coefficients: Coefficients
    loss: float
    policy_loss: float
    value_loss: float
    value_loss_unclipped: float
    value_loss_clipped: float
    value_clip_active: float
    """Share of rows whose value gradient the clip changed."""
    entropy: float
    """Of factored actions the joint entropy; without a bonus for it, from the heads that were relevant."""
    entropy_min: float
    entropy_max: float
    logit_penalty: float
    kl: float
    kl_last: float
    """KL of the last minibatch: how far the policy moved in this update."""
    clip_fraction: float
    ratio: float
    log_ratio_mean: float
    log_ratio_std: float
    log_ratio_max: float
    log_ratio_first: float
    """Largest |log-ratio| of the first minibatch; 0 up to rounding unless rollout and update disagree (P10)."""
    bounded_fraction: float
    extreme_fraction: float
    nan_count: int
    inf_count: int
    advantage_mean: float
    advantage_std: float
    advantage_min: float
    advantage_max: float
    zero_spread: bool
    explained_variance: float
    gradient_norm: float
    gradient_norms: dict[str, float]
    """Mean norm of each part, before clipping (O05)."""
    clipped_gradients: float
    """Share of gradient steps whose gradient was scaled down."""
    gradient_steps: int
    skipped_steps: int
    kl_stop: KLStop | None
    non_finite: tuple[str, ...] = field(default=())
    """Source of each skipped step (O09)."""
    heads: dict[str, HeadRecord] = field(default_factory=dict)
    """Each head of a factored action (F04)."""
    measured: bool = True
    """False without diagnostics: what would have been measured row by row is NaN."""

    def metrics(self) -> dict[str, float]:
        """Log keys and values; keys are those of Stable-Baselines3 where the meaning is the same."""
        coefficients = self.coefficients
        found: dict[str, float] = {
            "train/loss": self.loss,
            "train/policy_gradient_loss": self.policy_loss,
            "train/value_loss": self.value_loss,
            "train/entropy_loss": -self.entropy,
            "train/entropy": self.entropy,
            "train/entropy_min": self.entropy_min,
            "train/entropy_max": self.entropy_max,
            "train/approx_kl": self.kl,
            "train/kl_last": self.kl_last,
            "train/clip_fraction": self.clip_fraction,
            "train/ratio": self.ratio,
            "train/clip_range": coefficients.clip_range,
            "train/learning_rate": coefficients.learning_rate,
            "train/ent_coef": coefficients.ent_coef,
            "train/vf_coef": coefficients.vf_coef,
            "train/explained_variance": self.explained_variance,
            "train/log_ratio_mean": self.log_ratio_mean,
            "train/log_ratio_std": self.log_ratio_std,
            "train/log_ratio_max": self.log_ratio_max,
            "train/log_ratio_first": self.log_ratio_first,
            "train/log_ratio_bounded_fraction": self.bounded_fraction,
            "train/log_ratio_extreme_fraction": self.extreme_fraction,
            "train/advantage_mean": self.advantage_mean,
            "train/advantage_std": self.advantage_std,
            "train/advantage_min": self.advantage_min,
            "train/advantage_max": self.advantage_max,
            "train/grad_norm": self.gradient_norm,
            "train/grad_clipped_fraction": self.clipped_gradients,
            "train/gradient_steps": float(self.gradient_steps),
            "train/n_updates": float(self.update + 1),
        }
        found |= {f"train/grad_norm/{part}": norm for part, norm in self.gradient_norms.items()}
        if coefficients.clip_range_vf is not None:
            found |= {
                "train/clip_range_vf": coefficients.clip_range_vf,
                "train/value_loss_unclipped": self.value_loss_unclipped,
                "train/value_loss_clipped": self.value_loss_clipped,
                "train/value_clip_active": self.value_clip_active,
            }
        if self.logit_penalty:
            found["train/logit_penalty"] = self.logit_penalty
        if self.kl_stop is not None:
            found |= {
                "train/kl_stop_epoch": float(self.kl_stop.epoch),
                "train/kl_stop_value": self.kl_stop.kl,
            }
        if self.skipped_steps:
            found["error/skipped_steps"] = float(self.skipped_steps)
            found |= {
                "error/log_ratio_nan": float(self.nan_count),
                "error/log_ratio_inf": float(self.inf_count),
            }
        if self.zero_spread:
            found["warn/zero_spread_advantages"] = 1.0
        if self.bounded_fraction > 0.01:
            found["warn/log_ratio_bounded"] = self.bounded_fraction
        for name, head in self.heads.items():
            found |= head.metrics(name)
        found |= _twin_metrics(self.gradient_norms)
        return found if self.measured else {key: value for key, value in found.items() if not math.isnan(value)}


def _twin_metrics(norms: dict[str, float]) -> dict[str, float]:
    """Gradient norms of twin critics, and a warning if one of them hardly learns (C08)."""
    if "critic1" not in norms:
        return {}
    first, second = norms["critic1"], norms["critic2"]
    found = {"train/critic1_grad_norm": first, "train/critic2_grad_norm": second}
    if min(first, second) < TWIN_VANISHED:
        found["warn/critic_grad_vanished"] = min(first, second)
    elif max(first, second) > TWIN_RATIO * min(first, second):
        found["warn/critic_grad_ratio"] = first / second
    return found
