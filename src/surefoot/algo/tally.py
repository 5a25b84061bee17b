"""Collects what the minibatches of an update measured, and makes its record."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from surefoot.algo.coefficients import Coefficients
from surefoot.algo.estimate import Estimates
from surefoot.algo.heads import HeadTally, estimated_divergence
from surefoot.algo.objective import ROWS, Measured
from surefoot.algo.record import KLStop, UpdateRecord
from surefoot.config import PPOConfig
from surefoot.math.surrogate import LOG_RATIO_BOUND, LOG_RATIO_EXTREME, bound_log_ratio, clip_fraction_indicator

DERIVED = ("kl", "clip_fraction", "ratio", "log_ratio_squared", "bounded", "extreme")
"""Quantities of a row that follow from its log-ratio."""
MANY_ROWS = 1 << 18
"""Rows that wait to be summed up: few enough to hold, enough to make the operations' overhead negligible."""
FEW_ROWS = 64
"""As many as float32 sums up without losing digits."""


class RowSums:
    """Sums and extremes over the rows of all minibatches that count, many minibatches at a time."""

    def __init__(self, clip_range: float, config: PPOConfig, heads: HeadTally | None = None) -> None:
        self._clip_range, self._config, self._heads = clip_range, config, heads
        self._waiting: list[tuple[Tensor, Tensor, Tensor]] = []
        self._n_waiting = 0
        self._sums = torch.zeros(len(ROWS) + len(DERIVED), dtype=torch.float64)
        self._n_rows = 0
        self.log_ratio_max = self.entropy_max = -np.inf
        self.entropy_min = np.inf

    def add(self, rows: Tensor, weight: Tensor, row: Tensor) -> None:
        """Rows [R, B] as in `Measured`, their weights and their places in the rollout [B]."""
        self._waiting.append((rows, weight, row))
        self._n_waiting += weight.shape[0]
        if self._n_waiting >= MANY_ROWS:
            self.absorb()

    def means(self) -> dict[str, float]:
        """By name; NaN if nothing was added."""
        self.absorb()
        found = self._sums / self._n_rows if self._n_rows else torch.full_like(self._sums, torch.nan)
        return dict(zip((*ROWS, *DERIVED), found.tolist(), strict=True))

    def absorb(self) -> None:
        """Sum up what waits."""
        if not self._waiting:
            return
        every, weight, row = (torch.cat(parts, -1) for parts in zip(*self._waiting, strict=True))
        self._waiting.clear()
        self._n_waiting = 0
        counts = weight > 0
        if not bool(counts.all()):
            every, weight, row = every[:, counts], weight[counts], row[counts]
        if not row.shape[0]:
            return
        rows = every[: len(ROWS)]
        d, entropy = rows[ROWS.index("log_ratio")], rows[ROWS.index("entropy")]
        size = d.abs()
        ratio = torch.exp(bound_log_ratio(d, self._config.log_ratio_bound))
        if self._heads is None:
            divergence = estimated_divergence(d, self._config.kl_estimator)
        else:
            divergence = self._heads.absorb(_by_head(every), weight, row)
        derived = [
            divergence,
            clip_fraction_indicator(ratio, self._clip_range),
            ratio,
            d * d,
            (size > LOG_RATIO_BOUND).to(d.dtype),
            (size > LOG_RATIO_EXTREME).to(d.dtype),
        ]
        self._sums += torch.cat([_sum(rows), _sum(torch.stack(derived))]).cpu()
        self._n_rows += row.shape[0]
        self.log_ratio_max = max(self.log_ratio_max, float(size.max()))
        self.entropy_min = min(self.entropy_min, float(entropy.min()))
        self.entropy_max = max(self.entropy_max, float(entropy.max()))


def _by_head(rows: Tensor) -> Tensor:
    """Log-ratio and entropy [2, A, B] in `Measured.rows`."""
    return torch.unflatten(rows[len(ROWS) :], 0, (2, -1))


def _sum(rows: Tensor) -> Tensor:
    """Of each row [R, B], in float64."""
    whole = rows.shape[1] // FEW_ROWS * FEW_ROWS
    partial = torch.unflatten(rows[:, :whole], 1, (-1, FEW_ROWS)).sum(-1)
    return partial.double().sum(-1) + rows[:, whole:].double().sum(-1)


class Tally:
    """Counts the minibatches of an update."""

    def __init__(
        self, parts: tuple[str, ...], coefficients: Coefficients, config: PPOConfig, heads: HeadTally | None
    ) -> None:
        self._parts, self._coefficients, self._config = parts, coefficients, config
        self._rows = RowSums(coefficients.clip_range, config, heads) if config.diagnostics else None
        self.heads = heads
        """Of a factored action."""
        self._squared_norms: list[Tensor] = []
        self._divergences: list[tuple[Tensor, Tensor]] = []
        self._first: Measured | None = None
        self._last: tuple[Tensor, Tensor, Tensor] | None = None
        self.non_finite: list[str] = []
        self._bad_counts = np.zeros(2, np.int64)
        self.kl_stop: KLStop | None = None
        self.gradient_steps = 0

    def add(self, measured: Measured, squared_norms: Tensor, weight: Tensor, row: Tensor) -> None:
        """A minibatch with a finite gradient; ``row`` says where its rows lie in the rollout."""
        self._squared_norms.append(squared_norms)
        self._first = self._first or measured
        if measured.kl is not None:
            self._divergences.append((measured.kl, weight.sum()))
        if measured.rows is not None and self._rows is not None:
            self._last = measured.rows, weight, row
            self._rows.add(*self._last)

    def stop(self, measured: Measured, weight: Tensor, epoch: int, minibatch: int) -> None:
        """The minibatch just added exceeded the limit of KL; its gradient was not applied."""
        assert measured.kl is not None
        self.kl_stop = KLStop(epoch, minibatch, float(measured.kl / weight.sum()))

    def skip(self, measured: Measured, weight: Tensor, source: str) -> None:
        """A minibatch whose gradient was not finite."""
        self.non_finite.append(source)
        if measured.rows is not None:
            log_ratio = measured.rows[ROWS.index("log_ratio")][weight > 0]
            self._bad_counts += (int(torch.isnan(log_ratio).sum()), int(torch.isinf(log_ratio).sum()))

    def record(self, update: int, estimates: Estimates, valid: Tensor) -> UpdateRecord:
        """Everything as Python numbers; NaN where no minibatch was finite."""
        rows = self._rows or RowSums(self._coefficients.clip_range, self._config)
        mean = rows.means()
        divergence, divergence_last = self._divergence(mean["kl"])
        of_parts, of_outputs = self._all_norms()
        norms, totals = of_parts.sqrt(), of_parts.sum(1).sqrt()
        advantages = estimates.raw_advantages[valid].double()
        if not advantages.numel():
            advantages = torch.full((1,), torch.nan, dtype=torch.float64)
        nothing = np.isnan(mean["loss"])
        longest = self._config.max_grad_norm
        return UpdateRecord(
            update=update,
            coefficients=self._coefficients,
            loss=mean["loss"],
            policy_loss=mean["policy_loss"],
            value_loss=mean["value_loss"],
            value_loss_unclipped=mean["value_loss_unclipped"],
            value_loss_clipped=mean["value_loss_clipped"],
            value_clip_active=mean["value_clip_active"],
            entropy=mean["entropy"],
            entropy_min=np.nan if nothing else rows.entropy_min,
            entropy_max=np.nan if nothing else rows.entropy_max,
            logit_penalty=mean["logit_penalty"],
            kl=divergence,
            kl_last=divergence_last,
            clip_fraction=mean["clip_fraction"],
            ratio=mean["ratio"],
            log_ratio_mean=mean["log_ratio"],
            log_ratio_std=float(np.sqrt(np.maximum(mean["log_ratio_squared"] - mean["log_ratio"] ** 2, 0.0))),
            log_ratio_max=np.nan if nothing else rows.log_ratio_max,
            log_ratio_first=np.nan if self._first is None else float(self._first.largest),
            bounded_fraction=mean["bounded"],
            extreme_fraction=mean["extreme"],
            nan_count=int(self._bad_counts[0]),
            inf_count=int(self._bad_counts[1]),
            advantage_mean=float(advantages.mean()),
            advantage_std=float(advantages.std(correction=0)),
            advantage_min=float(advantages.min()),
            advantage_max=float(advantages.max()),
            zero_spread=estimates.zero_spread,
            explained_variance=estimates.explained_variance,
            gradient_norm=float(totals.mean()),
            gradient_norms=dict(zip(self._parts, norms.mean(0).tolist(), strict=True)),
            clipped_gradients=float((totals > longest).double().mean()) if longest else 0.0,
            gradient_steps=self.gradient_steps,
            skipped_steps=len(self.non_finite),
            kl_stop=self.kl_stop,
            non_finite=tuple(self.non_finite),
            heads={} if self.heads is None else self.heads.records(of_outputs),
            measured=self._config.diagnostics,
        )

    def _divergence(self, from_rows: float) -> tuple[float, float]:
        """KL over the update, and of its last minibatch."""
        if self._divergences:
            sums, weights = (torch.stack(parts).double() for parts in zip(*self._divergences, strict=True))
            return float(sums.sum() / weights.sum()), float(sums[-1] / weights[-1])
        if self._last is None or self._rows is None:
            return np.nan, np.nan
        if self.heads is not None:
            rows, weight, _ = self._last
            return from_rows, self.heads.joint_divergence(_by_head(rows), weight)
        last = RowSums(self._coefficients.clip_range, self._config)
        last.add(*self._last)
        return from_rows, last.means()["kl"]

    def _all_norms(self) -> tuple[Tensor, Tensor]:
        """Squared gradient norms, of the parts and of what `HeadNorms` finds, in each minibatch."""
        n = len(self._parts)
        if not self._squared_norms:
            return torch.full((1, n), torch.nan), torch.full((1, 0), torch.nan)
        found = torch.stack(self._squared_norms).double().cpu()
        return found[:, :n], found[:, n:]
