"""What is measured of each head of a factored action (F03, F04, F06)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.actions.distribution import Family, HeadFacts
from surefoot.algo.coefficients import Coefficients
from surefoot.config import PPOConfig
from surefoot.math import kl
from surefoot.math.surrogate import Bound, bound_log_ratio, clip_fraction_indicator
from surefoot.optim.flat import FlatParameters

HEAD_SUMS = ("relevant", "choosing", "ratio", "kl", "clip_fraction", "entropy", "normalised_entropy")
"""Sums over the rows in which a head is relevant; the last over those in which it had a choice."""


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


def head_sums(
    step: Tensor, divergence: Tensor, weight: Tensor, row: Tensor, facts: HeadFacts, clip_range: float, bound: Bound
) -> Tensor:
    """`HEAD_SUMS` of each head, [len(HEAD_SUMS), A], from log-ratio and entropy [2, A, B] and `estimated_divergence`
    [A, B] of rows with a weight and a place in the rollout [B], of which ``facts`` are. An irrelevant head has 0 of
    each."""
    log_ratio, entropy = step
    excess = torch.exp(bound_log_ratio(log_ratio, bound)) - 1.0
    # What the rollout says is looked at once for each of its rows, however often these were used.
    used = weight.new_zeros(facts.relevant.shape[1]).index_add_(0, row, weight)
    relevant, has_choice = facts.relevant.to(weight.dtype), facts.n_legal > 1
    share = torch.where(has_choice, 1.0 / facts.n_legal.clamp(min=2.0).log(), 0.0)
    n_relevant = relevant @ used
    sums = [
        n_relevant,
        (relevant * has_choice) @ used,
        n_relevant + excess @ weight,
        divergence @ weight,
        clip_fraction_indicator(excess + 1.0, clip_range) @ weight,
        entropy @ weight,
        (entropy * share.index_select(1, row)) @ weight,
    ]
    return torch.stack(sums)


class HeadTally:
    """Sums up what the minibatches of an update measured of each head."""

    def __init__(
        self, family: Family, facts: HeadFacts, counts: list[int], coefficients: Coefficients, config: PPOConfig
    ) -> None:
        """``facts`` of all rows of the rollout; ``counts`` says in how many transitions each head was relevant."""
        self._names, self._outputs = family.head_names, family.head_outputs
        self._facts, self._counts = facts, counts
        self._ent_coefs: Sequence[float] | None = coefficients.head_ent_coefs
        self._clip_range, self._config = coefficients.clip_range, config
        self._sums = torch.zeros(len(HEAD_SUMS), len(self._names), dtype=torch.float64)

    def absorb(self, step: Tensor, weight: Tensor, row: Tensor) -> Tensor:
        """Log-ratio and entropy [2, A, B] of rows, with their weights and their places in the rollout; their joint
        divergence [B]."""
        divergence = self._divergence(step)
        sums = head_sums(step, divergence, weight, row, self._facts, self._clip_range, self._config.log_ratio_bound)
        self._sums += sums.double().cpu()
        return divergence.sum(0)

    def records(self, squared_norms: Tensor) -> dict[str, HeadRecord]:
        """The record of each head, given what `HeadNorms` found in each minibatch."""
        norms = [float(squared_norms[:, outputs].sum(1).sqrt().mean()) for outputs in self._outputs]
        found = {}
        for h, name in enumerate(self._names):
            of = dict(zip(HEAD_SUMS, self._sums[:, h].tolist(), strict=True))
            mean = {key: of[key] / of["relevant"] if of["relevant"] > 0 else math.nan for key in HEAD_SUMS}
            found[name] = HeadRecord(
                count=self._counts[h],
                ratio=mean["ratio"],
                kl=mean["kl"],
                clip_fraction=mean["clip_fraction"],
                entropy=mean["entropy"],
                normalised_entropy=of["normalised_entropy"] / of["choosing"] if of["choosing"] > 0 else math.nan,
                gradient_norm=norms[h] if of["relevant"] > 0 else math.nan,
                ent_coef=None if self._ent_coefs is None else self._ent_coefs[h],
            )
        return found

    def joint_divergence(self, step: Tensor, weight: Tensor) -> float:
        """The mean over some rows (F06)."""
        return float((self._divergence(step).sum(0) @ weight) / weight.sum())

    def _divergence(self, step: Tensor) -> Tensor:
        return estimated_divergence(step[0], self._config.kl_estimator)


def estimated_divergence(log_ratio: Tensor, estimator: str) -> Tensor:
    """KL(old ‖ new) of each sample, elementwise; by k3 where the joint divergence is asked for exactly."""
    return {"k1": kl.k1, "k2": kl.k2}.get(estimator, kl.k3)(log_ratio)


class HeadNorms:
    """Squared gradient norm of each output of the last layer; those of a head's own outputs add up to the head's."""

    def __init__(self, flat: FlatParameters) -> None:
        slots = {slot.name: slot for slot in flat.slots}
        self._weight, self._bias = slots["head.linear.weight"], slots["head.linear.bias"]

    def __call__(self, gradient: Tensor) -> Tensor:
        """Gradient [P] -> [n_outputs]."""
        weight, bias = gradient[self._weight.where].view(self._weight.shape), gradient[self._bias.where]
        return torch.addcmul((weight * weight).sum(1), bias, bias)
