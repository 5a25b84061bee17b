"""What scales the features: mean and standard deviation of each column over the training span, kept with the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import ConfigError
from surefoot.market.prices import Column

CLIP = 10.0
"""Scaled features are cut off at so many standard deviations."""


@dataclass(frozen=True)
class FeatureStatistics:
    """Of each column, in order; a plain record that survives JSON exactly."""

    columns: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    start: str
    """Close of the first bar that was looked at."""
    end: str
    """Close of the last one."""

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "columns": list(self.columns),
            "mean": list(self.mean),
            "std": list(self.std),
            "start": self.start,
            "end": self.end,
        }

    @classmethod
    def load_state_dict(cls, state: dict[str, Any]) -> FeatureStatistics:
        """The record that `state_dict` was of."""
        try:
            columns = tuple(str(x) for x in state["columns"])
            mean, std = (tuple(float(x) for x in state[key]) for key in ("mean", "std"))
            start, end = str(state["start"]), str(state["end"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"these are no statistics of features: {type(error).__name__}: {error}") from None
        fits = len(columns) == len(mean) == len(std) and all(np.isfinite(mean)) and all(x > 0 for x in std)
        if not fits or not all(np.isfinite(std)):
            raise ConfigError("these are no statistics of features: each column needs a mean and a positive std")
        return cls(columns, mean, std, start, end)

    def require(self, columns: tuple[str, ...]) -> None:
        """Raise unless they are of these columns, in this order."""
        if self.columns != columns:
            wrong = next(
                (f"{a} and {b}" for a, b in zip(self.columns, columns, strict=False) if a != b), "their number"
            )
            raise ConfigError(
                f"the statistics are of other features than those asked for (first difference: {wrong}); "
                "use the features that the agent was trained with, or fit anew"
            )


def moments(column: Column) -> tuple[float, float]:
    """Mean and standard deviation; 1 in place of a deviation that is 0 but for rounding."""
    mean, std = float(column.mean()), float(column.std())
    return mean, std if std > 1e-12 * max(1.0, abs(mean)) else 1.0


def scale(column: Column, mean: float, std: float) -> NDArray[np.float32]:
    """One column as agents see it. Training, evaluation, backtest and live all go through here (E06)."""
    return np.clip((column - mean) / std, -CLIP, CLIP).astype(np.float32)
