"""Metrics of each head of a factored action (F03, F04, F06)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.actions.distribution import Family, HeadStatistics
from surefoot.algo.coefficients import Coefficients
from surefoot.algo.metrics import OF_HEAD_RECORDS, OF_HEADS, Logged
from surefoot.config import PPOConfig
from surefoot.math import kl
from surefoot.math.surrogate import importance_ratio
from surefoot.optim.flat import FlatParameters


class HeadRows(NamedTuple):
    """Quantities of each head in the rows of many minibatches, [A, B] each; 0 or 1 where the head is inactive."""

    ratio: Tensor
    kl: Tensor
    entropy: Tensor
    active: Tensor
    """1 where the head is active, else 0."""
    inverse_log_legal: Tensor
    """1/ln(number of legal choices); 0 where it is inactive or has only one."""
    clip_range: float


@dataclass(frozen=True)
class HeadRecord:
    """One head in one update: means over the rows in which it was active; NaN is "no data"."""

    count: int
    """Steps of the rollout in which the head was active."""
    values: dict[str, float]
    """What `OF_HEADS` declares, by key."""
    gradient_norm: float
    """Before clipping."""
    ent_coef: float | None = None
    """If the head has an entropy coefficient of its own."""

    ratio = Logged("train/head/<head>/ratio")
    kl = Logged("train/head/<head>/approx_kl")
    clip_fraction = Logged("train/head/<head>/clip_fraction")
    entropy = Logged("train/head/<head>/entropy")
    normalized_entropy = Logged("train/head/<head>/entropy_normalized")

    def metrics(self, name: str) -> dict[str, float]:
        """By log key. Without data the keys stay, so that no older value seems to be the current one."""
        found = {metric.key: metric.of(self) for metric in OF_HEAD_RECORDS} | self.values
        return {key.replace("<head>", name): float(value) for key, value in found.items() if value is not None}


class HeadMetrics:
    """Reduces what the minibatches of an update say about each head."""

    def __init__(
        self,
        family: Family,
        statistics: HeadStatistics,
        counts: list[int],
        coefficients: Coefficients,
        config: PPOConfig,
    ) -> None:
        """``statistics`` of all rows of the rollout; ``counts`` says in how many transitions each head was active."""
        self.names, self._outputs = family.head_names, family.head_outputs
        self._active, self._counts = statistics.active.to(torch.float32), counts
        has_choice = statistics.active & (statistics.n_legal > 1)
        self._inverse_log_legal = torch.where(has_choice, 1.0 / statistics.n_legal.clamp(min=2.0).log(), 0.0)
        self._ent_coefs: Sequence[float] | None = coefficients.head_ent_coefs
        self._clip_range, self._config = coefficients.clip_range, config
        self._sums = torch.zeros(2, len(OF_HEADS), len(counts), dtype=torch.float64)
        """Of the values, and of the rows that count."""

    def add(self, log_ratio: Tensor, entropy: Tensor, row: Tensor) -> Tensor:
        """Rows [A, B] and their positions in the rollout [B]; their joint divergence [B]."""
        divergence = self._divergence(log_ratio)
        active, inverse = (x.index_select(1, row) for x in (self._active, self._inverse_log_legal))
        ratio = importance_ratio(log_ratio, bound=self._config.log_ratio_bound)
        rows = HeadRows(ratio, divergence, entropy, active, inverse, self._clip_range)
        for i, metric in enumerate(OF_HEADS):
            counts = active if metric.among is None else metric.among(rows).to(active.dtype)
            self._sums[:, i] += torch.stack([(metric.of(rows) * counts).sum(1), counts.sum(1)]).double().cpu()
        return divergence.sum(0)

    def records(self, squared_norms: Tensor) -> dict[str, HeadRecord]:
        """The record of each head, given what `HeadNorms` found in each minibatch."""
        norms = [float(squared_norms[:, outputs].sum(1).sqrt().mean()) for outputs in self._outputs]
        means = (self._sums[0] / self._sums[1]).t().tolist()  # 0/0 is NaN
        return {
            name: HeadRecord(
                count=self._counts[h],
                values={metric.key: mean for metric, mean in zip(OF_HEADS, means[h], strict=True)},
                gradient_norm=norms[h] if float(self._sums[1, :, h].max()) > 0 else math.nan,
                ent_coef=None if self._ent_coefs is None else self._ent_coefs[h],
            )
            for h, name in enumerate(self.names)
        }

    def joint_divergence(self, log_ratio: Tensor, weight: Tensor) -> float:
        """The mean over some rows (F06)."""
        return float((self._divergence(log_ratio).sum(0) @ weight) / weight.sum())

    def _divergence(self, log_ratio: Tensor) -> Tensor:
        return estimated_divergence(log_ratio, self._config.kl_estimator)


def estimated_divergence(log_ratio: Tensor, estimator: str) -> Tensor:
    """KL(old ‖ new) of each sample, elementwise; by k3 where the joint divergence is asked for exactly."""
    return {"k1": kl.k1, "k2": kl.k2}.get(estimator, kl.k3)(log_ratio)


class HeadNorms:
    """Squared gradient norm of each output of the last layer; those of a head's own outputs add up to the head's."""

    def __init__(self, flat: FlatParameters) -> None:
        slots = {slot.name: slot for slot in flat.slots}
        self._weight, self._bias = slots["output.linear.weight"], slots["output.linear.bias"]

    def __call__(self, gradient: Tensor) -> Tensor:
        """Gradient [P] -> [n_outputs]."""
        weight, bias = gradient[self._weight.where].view(self._weight.shape), gradient[self._bias.where]
        return torch.addcmul((weight * weight).sum(1), bias, bias)
