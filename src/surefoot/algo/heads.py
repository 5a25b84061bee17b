"""What is measured of each head of a factored action (F03, F04, F06)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.dists.interface import Family, HeadTerms
from surefoot.math import kl
from surefoot.math.surrogate import Bound, bound_log_ratio, clip_fraction_indicator
from surefoot.optim.flat import FlatParameters

HEAD_SUMS = ("relevant", "choosing", "ratio", "kl", "clip_fraction", "entropy", "normalised_entropy")
"""Sums over the rows of a minibatch in which a head is relevant; the last over those in which it had a choice."""


class HeadStep(NamedTuple):
    """Terms of each head in a minibatch, [B, A]."""

    terms: HeadTerms
    log_ratio: Tensor


def head_statistics(
    step: HeadStep, divergence: Tensor, weight: Tensor, clip_range: Tensor | float, bound: Bound
) -> Tensor:
    """`HEAD_SUMS` of each head, [len(HEAD_SUMS)·A]; ``divergence`` [B, A] estimates each head's KL."""
    terms = step.terms
    relevant = terms.relevant.to(weight.dtype)
    ratio = torch.exp(bound_log_ratio(step.log_ratio.detach(), bound))
    entropy = terms.entropy.detach()
    has_choice = terms.n_legal > 1
    share = torch.where(has_choice, entropy / terms.n_legal.clamp(min=2.0).log(), 0.0)
    columns = [
        relevant,
        relevant * has_choice,
        relevant * ratio,
        divergence,
        clip_fraction_indicator(ratio, clip_range),  # an irrelevant head's ratio is 1
        entropy,
        share,
    ]
    return (weight @ torch.stack(columns, 1).flatten(1)).flatten()


def head_divergence(log_ratio: Tensor, estimator: str) -> Tensor:
    """KL(old ‖ new) of each head and sample, [B, A]; k3 where the joint divergence is exact."""
    return {"k1": kl.k1, "k2": kl.k2}.get(estimator, kl.k3)(log_ratio)


class HeadNorms:
    """Squared gradient norm of each head: of its rows of the last layer."""

    def __init__(self, family: Family, flat: FlatParameters) -> None:
        slots = {slot.name: slot for slot in flat.slots}
        self._weight, self._bias = slots["head.linear.weight"], slots["head.linear.bias"]
        members = torch.zeros(family.n_outputs, len(family.head_outputs), device=flat.values.device)
        for h, outputs in enumerate(family.head_outputs):
            members[outputs, h] = 1.0
        self._members = members

    def __call__(self, gradient: Tensor) -> Tensor:
        """Gradient [P] -> [A]."""
        weight = gradient[self._weight.where].view(self._weight.shape)
        return (weight.square().sum(1) + gradient[self._bias.where].square()) @ self._members


@dataclass(frozen=True)
class HeadRecord:
    """One head in one update: means over the steps in which it was relevant; NaN is "no data"."""

    count: int
    """Steps of the rollout in which the head was relevant."""
    ratio: float
    kl: float
    clip_fraction: float
    entropy: float
    """In nats."""
    normalised_entropy: float
    """H/ln(number of legal choices), over the steps with more than one."""
    gradient_norm: float
    """Before clipping."""
    ent_coef: float | None = None
    """If the head has an entropy coefficient of its own."""

    def metrics(self, name: str) -> dict[str, float]:
        """By log key. Without data the keys stay, so that no older value seems to be the current one."""
        found = {
            "count": float(self.count),
            "ratio": self.ratio,
            "approx_kl": self.kl,
            "clip_fraction": self.clip_fraction,
            "entropy": self.entropy,
            "entropy_normalised": self.normalised_entropy,
            "grad_norm": self.gradient_norm,
        }
        if self.ent_coef is not None:
            found["ent_coef"] = self.ent_coef
        return {f"train/head/{name}/{key}": value for key, value in found.items()}


def head_records(
    names: tuple[str, ...],
    sums: NDArray[np.float64],
    norms: NDArray[np.float64],
    counts: Sequence[int],
    ent_coefs: tuple[float, ...] | None,
) -> dict[str, HeadRecord]:
    """From sums [len(HEAD_SUMS), A] and mean gradient norms [A] to the record of each head."""
    found = {}
    for h, name in enumerate(names):
        of = dict(zip(HEAD_SUMS, sums[:, h].tolist(), strict=True))
        mean = {key: of[key] / of["relevant"] if of["relevant"] > 0 else math.nan for key in HEAD_SUMS}
        found[name] = HeadRecord(
            count=counts[h],
            ratio=mean["ratio"],
            kl=mean["kl"],
            clip_fraction=mean["clip_fraction"],
            entropy=mean["entropy"],
            normalised_entropy=of["normalised_entropy"] / of["choosing"] if of["choosing"] > 0 else math.nan,
            gradient_norm=float(norms[h]) if of["relevant"] > 0 else math.nan,
            ent_coef=None if ent_coefs is None else ent_coefs[h],
        )
    return found
