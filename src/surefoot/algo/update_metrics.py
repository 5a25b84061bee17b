"""Collects what the minibatches of an update say, and makes its record."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.algo.coefficients import Coefficients
from surefoot.algo.heads import HeadMetrics, estimated_divergence
from surefoot.algo.loss_term import LossTerm
from surefoot.algo.metrics import OF_ROLLOUT, OF_ROWS, Metric, coefficient_key, term_metrics
from surefoot.algo.objective import N_STACKED, StepMetrics, Terms
from surefoot.algo.record import KLStop, UpdateRecord, WorstRow
from surefoot.algo.reduce import RowReducer, reduced
from surefoot.algo.rows import RolloutData, Rows
from surefoot.config import PPOConfig
from surefoot.math.surrogate import Bound
from surefoot.rollout.buffer import Rollout

MANY_ROWS = 1 << 18
"""Rows that are kept until they are reduced: few enough to hold, enough to make the operations' overhead negligible."""


class Worst(NamedTuple):
    """As `WorstRow`, by its place in the rollout and the number of its head."""

    row: int
    head: int | None
    quantity: str
    value: float


def largest_log_ratio(terms: Terms, row: Tensor) -> Worst:
    """Of rows [B] that are at these places of the rollout."""
    i = int(terms.log_ratio.abs().argmax())
    head = None if terms.heads is None else int(terms.heads[0][:, i].abs().argmax())
    return Worst(int(row[i]), head, "log_ratio", float(terms.log_ratio[i]))


def first_non_finite(stacked: Tensor, row: Tensor, bound: Bound, n_metrics: int = 0) -> Worst | None:
    """The first row of `Terms.stacked` [R, B] with a number that is not finite; None if the gradient alone is not. The
    log-ratio is named before what follows from it."""
    bad = (~torch.isfinite(stacked[:N_STACKED])).any(0)
    if not bool(bad.any()):
        return None
    i = int(bad.int().argmax())
    terms = Terms.unstacked(stacked[:, i : i + 1], bound, n_metrics)
    names = ("log_ratio", *Terms._fields[1:N_STACKED], "loss")
    quantity = next(name for name in names if not bool(torch.isfinite(getattr(terms, name))))
    head = None
    if terms.heads is not None and quantity == "log_ratio":
        head = int((~torch.isfinite(terms.heads[0][:, 0])).int().argmax())
    return Worst(int(row[i]), head, quantity, float(getattr(terms, quantity)))


class RowMetrics:
    """`OF_ROWS` over the rows of all minibatches that count, many minibatches at a time."""

    def __init__(
        self,
        clip_range: float,
        config: PPOConfig,
        heads: HeadMetrics | None = None,
        of_terms: tuple[Metric[Rows, Tensor], ...] = (),
    ) -> None:
        self._clip_range, self._config, self._heads = clip_range, config, heads
        self._n_metrics = len(of_terms)
        self._kept: list[tuple[Tensor, Tensor, Tensor]] = []
        self._n_kept = 0
        self._reducer = RowReducer((*OF_ROWS, *of_terms))
        self.worst: Worst | None = None

    def add(self, stacked: Tensor, weight: Tensor, row: Tensor) -> None:
        """`Terms.stacked` [R, B] of a minibatch, the weights of its rows and their places in the rollout [B]."""
        self._kept.append((stacked, weight, row))
        self._n_kept += weight.shape[0]
        if self._n_kept >= MANY_ROWS:
            self._reduce()

    def values(self) -> dict[str, float]:
        """By key; NaN if nothing was added."""
        self._reduce()
        return self._reducer.values()

    def _reduce(self) -> None:
        if not self._kept:
            return
        stacked, weight, row = (torch.cat(parts, -1) for parts in zip(*self._kept, strict=True))
        self._kept.clear()
        self._n_kept = 0
        counts = weight > 0
        if not bool(counts.all()):
            stacked, row = stacked[:, counts], row[counts]
        if not row.shape[0]:
            return
        terms = Terms.unstacked(stacked, self._config.log_ratio_bound, self._n_metrics)
        if self._heads is None or terms.heads is None:
            divergence = estimated_divergence(terms.log_ratio, self._config.kl_estimator)
        else:
            divergence = self._heads.add(*terms.heads, row)
        worst = largest_log_ratio(terms, row)
        if self.worst is None or abs(worst.value) > abs(self.worst.value):
            self.worst = worst
        self._reducer.add(Rows(terms, divergence, self._clip_range), row.shape[0])


class UpdateMetrics:
    """Takes in the minibatches of an update."""

    def __init__(
        self,
        parts: tuple[str, ...],
        coefficients: Coefficients,
        config: PPOConfig,
        heads: HeadMetrics | None,
        terms: tuple[LossTerm, ...] = (),
    ) -> None:
        self._parts, self._coefficients, self._config, self._heads = parts, coefficients, config, heads
        self._added, of_terms = terms, term_metrics(terms)
        self._n_metrics = len(of_terms)
        self._rows = RowMetrics(coefficients.clip_range, config, heads, of_terms)
        self._squared_norms: list[Tensor] = []
        self._divergences: list[tuple[Tensor, Tensor]] = []
        self._first: StepMetrics | None = None
        self._last: tuple[Tensor, Tensor] | None = None
        self.non_finite: list[str] = []
        self._nan_count = self._inf_count = 0
        self._non_finite_row: Worst | None = None
        self.kl_stop: KLStop | None = None
        self.gradient_steps = 0

    def add(self, step_metrics: StepMetrics, squared_norms: Tensor, weight: Tensor, row: Tensor) -> None:
        """A minibatch with a finite gradient; ``row`` says where its rows lie in the rollout."""
        self._squared_norms.append(squared_norms)
        self._first = self._first or step_metrics
        if step_metrics.kl is not None:
            self._divergences.append((step_metrics.kl, weight.sum()))
        if step_metrics.rows is not None:
            self._last = step_metrics.rows, weight
            self._rows.add(step_metrics.rows, weight, row)

    def stop(self, step_metrics: StepMetrics, weight: Tensor, epoch: int, minibatch: int) -> None:
        """The minibatch just added exceeded the limit of KL; its gradient was not applied."""
        assert step_metrics.kl is not None
        self.kl_stop = KLStop(epoch, minibatch, float(step_metrics.kl / weight.sum()))

    def skip(self, step_metrics: StepMetrics, weight: Tensor, row: Tensor, source: str) -> None:
        """A minibatch whose gradient was not finite."""
        self.non_finite.append(source)
        if step_metrics.rows is not None:
            stacked = step_metrics.rows[:, weight > 0]
            if self._non_finite_row is None:
                bound, counted = self._config.log_ratio_bound, row[weight > 0]
                self._non_finite_row = first_non_finite(stacked, counted, bound, self._n_metrics)
            log_ratio = self._terms(stacked).log_ratio
            self._nan_count += int(torch.isnan(log_ratio).sum())
            self._inf_count += int(torch.isinf(log_ratio).sum())

    def record(self, update: int, data: RolloutData) -> UpdateRecord:
        """Everything as Python numbers; NaN where no minibatch was finite."""
        values = self._rows.values()
        values["train/approx_kl"], kl_last = self._divergence(values["train/approx_kl"])
        for metric in OF_ROLLOUT:
            found = metric.of(data)
            if found is not None:
                values[metric.key] = reduced(found, metric.reduce)
        for term, numbers in zip(self._added, self._coefficients.terms, strict=True):
            values[coefficient_key(term)] = numbers[0]
        of_parts, of_outputs = self._all_norms()
        norms, totals = of_parts.sqrt(), of_parts.sum(1).sqrt()
        longest = self._config.max_grad_norm
        return UpdateRecord(
            update=update,
            coefficients=self._coefficients,
            values=values,
            kl_last=kl_last,
            log_ratio_first=math.nan if self._first is None else float(self._first.largest),
            nan_count=self._nan_count,
            inf_count=self._inf_count,
            zero_std=data.estimates.zero_std,
            explained_variance=data.estimates.explained_variance,
            gradient_norm=float(totals.mean()),
            gradient_norms=dict(zip(self._parts, norms.mean(0).tolist(), strict=True)),
            clipped_gradients=float((totals > longest).double().mean()) if longest else 0.0,
            gradient_steps=self.gradient_steps,
            skipped_steps=len(self.non_finite),
            kl_stop=self.kl_stop,
            non_finite=tuple(self.non_finite),
            heads={} if self._heads is None else self._heads.records(of_outputs),
            worst=self._worst(data.rollout),
            diagnostics=self._config.diagnostics,
        )

    def _worst(self, rollout: Rollout) -> WorstRow | None:
        worst = self._non_finite_row or self._rows.worst
        if worst is None:
            return None
        t, env = divmod(worst.row, rollout.n_envs)
        head = None if worst.head is None or self._heads is None else self._heads.names[worst.head]
        return WorstRow(env, rollout.first_step + t, head, worst.quantity, worst.value)

    def _divergence(self, from_rows: float) -> tuple[float, float]:
        """KL over the update, and of its last minibatch."""
        if self._divergences:
            sums, weights = (torch.stack(parts).double() for parts in zip(*self._divergences, strict=True))
            return float(sums.sum() / weights.sum()), float(sums[-1] / weights[-1])
        if self._last is None:
            return math.nan, math.nan
        rows, weight = self._last
        terms = self._terms(rows)
        if self._heads is not None and terms.heads is not None:
            return from_rows, self._heads.joint_divergence(terms.heads[0], weight)
        divergence = estimated_divergence(terms.log_ratio[weight > 0].double(), self._config.kl_estimator)
        return from_rows, float(divergence.mean())

    def _terms(self, stacked: Tensor) -> Terms:
        return Terms.unstacked(stacked, self._config.log_ratio_bound, self._n_metrics)

    def _all_norms(self) -> tuple[Tensor, Tensor]:
        """Squared gradient norms, of the parts and of what `HeadNorms` finds, in each minibatch."""
        n = len(self._parts)
        if not self._squared_norms:
            return torch.full((1, n), torch.nan), torch.full((1, 0), torch.nan)
        found = torch.stack(self._squared_norms).double().cpu()
        return found[:, :n], found[:, n:]
