"""How many values become one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from surefoot.algo.metrics import Metric, Reduction

SHORT_SUM = 64
"""As many numbers as float32 sums up without losing digits."""


class RowReducer:
    """Reduces quantities of rows that come in several pieces; a piece costs a few vector operations."""

    def __init__(self, metrics: Sequence[Metric[Any, Tensor]]) -> None:
        def reduced_by(*how: Reduction) -> list[Metric[Any, Tensor]]:
            return [metric for metric in metrics if metric.reduce in how]

        self._summed, self._squared = reduced_by("mean", "std", "slope"), reduced_by("std")
        self._sloped = reduced_by("slope")
        self._extreme, self._ranked = reduced_by("max", "min"), reduced_by("p90")
        self._keys = [metric.key for metric in metrics]
        self._sums = torch.zeros(len(self._summed) + len(self._squared), dtype=torch.float64)
        self._moments = torch.zeros(len(self._sloped), dtype=torch.float64)
        """Sums of value times number of the row."""
        self._largest = torch.full((len(self._extreme),), -torch.inf)
        self._columns: list[list[Tensor]] = [[] for _ in self._ranked]
        self._n_rows = 0

    def add(self, rows: Any, n_rows: int) -> None:
        """A piece of so many rows."""
        summed = [metric.of(rows) for metric in self._summed]
        dtype = rows.terms.loss.dtype
        squares = [x * x for x in (metric.of(rows) for metric in self._squared)]
        self._sums += row_sums(torch.stack([x.to(dtype) for x in (*summed, *squares)])).cpu()
        number = torch.arange(self._n_rows, self._n_rows + n_rows, dtype=torch.float64)
        self._moments += torch.stack([number @ metric.of(rows).double().cpu() for metric in self._sloped])
        # A minimum is the maximum of what is negated.
        signed = [metric.of(rows) if metric.reduce == "max" else -metric.of(rows) for metric in self._extreme]
        self._largest = torch.maximum(self._largest, torch.stack(signed).amax(1).cpu())
        for metric, column in zip(self._ranked, self._columns, strict=True):
            column.append(metric.of(rows))
        self._n_rows += n_rows

    def values(self) -> dict[str, float]:
        """By key; NaN if nothing was added."""
        if not self._n_rows:
            return dict.fromkeys(self._keys, math.nan)
        means = (self._sums / self._n_rows).tolist()
        found = {metric.key: mean for metric, mean in zip(self._summed, means, strict=False)}
        for metric, square in zip(self._squared, means[len(self._summed) :], strict=True):
            found[metric.key] = math.sqrt(max(square - found[metric.key] ** 2, 0.0))
        for metric, moment in zip(self._sloped, (self._moments / self._n_rows).tolist(), strict=True):
            found[metric.key] = _change(found[metric.key], moment, self._n_rows)
        for metric, largest in zip(self._extreme, self._largest.tolist(), strict=True):
            found[metric.key] = largest if metric.reduce == "max" else -largest
        for metric, column in zip(self._ranked, self._columns, strict=True):
            found[metric.key] = reduced(torch.cat(column), metric.reduce)
        return {key: found[key] for key in self._keys}


def _change(mean: float, moment: float, n_rows: int) -> float:
    """By how much a straight line through n values changes from the first to the last, given their mean and the mean of
    value times number: cov/var of the numbers 0 … n − 1, times n − 1."""
    if n_rows < 2:
        return math.nan
    covariance, variance = moment - mean * (n_rows - 1) / 2, (n_rows**2 - 1) / 12
    return covariance / variance * (n_rows - 1)


def row_sums(rows: Tensor) -> Tensor:
    """Of each row [R, B], in float64."""
    whole = rows.shape[1] // SHORT_SUM * SHORT_SUM
    short = torch.unflatten(rows[:, :whole], 1, (-1, SHORT_SUM)).sum(-1)
    return short.double().sum(-1) + rows[:, whole:].double().sum(-1)


def reduced(values: Tensor, how: Reduction) -> float:
    """Some values as one; NaN if there are none."""
    x = values.flatten()
    if not x.numel():
        return math.nan
    if how in ("p90", "median"):
        rank = -(-x.numel() * 9 // 10) if how == "p90" else -(-x.numel() // 2)
        return float(x.kthvalue(rank).values)
    x = x.double()
    if how == "std":
        return float(x.std(correction=0))
    return float(x.mean() if how == "mean" else x.min() if how == "min" else x.max())
