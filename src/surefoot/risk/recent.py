"""The values that an estimate rests on: those of the rollout at hand, or the newest if these are too few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from surefoot.math.moments import Moments, merge
from surefoot.risk.saved import numbers


class RecentValues:
    """Values of episodes or steps.

    An estimate rests on all values of the rollout at hand, and if these are fewer than ``size`` on so many of the
    newest: those of this rollout belong to the policy that is being improved, older ones are the second choice.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._recent = torch.zeros(0, dtype=torch.float64)
        self._moments = Moments.empty(())

    def update(self, values: Tensor) -> Tensor:
        """Add the values [n] of a rollout; the sample to rest on, the newest last."""
        sample = torch.cat([self._recent, values.double()])[-max(self._size, len(values)) :]
        self._recent = sample[-self._size :]
        self._moments = merge(self._moments, Moments.from_batch(values.double()))
        return sample

    @property
    def std(self) -> float:
        """Standard deviation of all values so far; their size if they do not vary, 1 if there is none."""
        std, size = float(self._moments.std), abs(float(self._moments.mean))
        return std if std > 1e-4 * size else size or 1.0

    def std_of(self, sample: Tensor) -> float:
        """Of a sample, but a tenth of that of all values so far at least: values that hardly vary any more are no unit
        to measure a violation by."""
        return max(float(sample.std()) if len(sample) > 1 else 0.0, 0.1 * self.std)

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        moments = self._moments
        return {
            "recent": self._recent.tolist(),
            "moments": [float(moments.count), float(moments.mean), float(moments.m2)],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        self._recent = numbers(state["recent"])
        moments = numbers(state["moments"], 3)
        if moments[0] < 0.0 or moments[2] < 0.0:
            raise ValueError(f"{state['moments']} are no moments: count and sum of squares are at least 0")
        self._moments = Moments(*moments)


def relative(violation: float, std: float) -> float:
    """A violation in units of σ + |violation|: in standard deviations as long as it is small, and never beyond ±1, so
    that the first violations of a policy that has learned nothing do not decide where the multiplier is later."""
    return violation / (std + abs(violation))
