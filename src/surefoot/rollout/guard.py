"""Finds NaN and Inf in what comes from environments and from the policy, and names env and step (R04, O09)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefoot.errors import EnvError, NonFiniteError
from surefoot.spaces import Array

OF_ENV = "Correct the env, or mask the source of the value"
OF_POLICY = "The policy gave it: lower learning_rate, or go on from an earlier checkpoint"


class Guard:
    """Checks arrays [N, ...] and names the env, the step and the field of the first bad number.

    The sum of the squares is finite only if all entries are, up to overflow; so one product settles the healthy case,
    and only a suspicious one is looked at entry by entry.
    """

    def check(self, array: Array, field: str, step: int, env: int | None = None, advice: str = OF_ENV) -> None:
        """Raise `NonFiniteError` if an entry is not finite; ``env`` if the array is of one env alone."""
        if array.dtype.kind != "f" or math.isfinite(np.vdot(array, array)):
            return
        bad = ~np.isfinite(array)
        if not bad.any():
            return
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        inner = index[1:] if env is None else index
        where = f"[{', '.join(map(str, inner))}]" if inner else ""
        raise NonFiniteError(
            f"{field}{where} is {array[index]} in env {index[0] if env is None else env} at step {step}; "
            f"nothing was learned from it. {advice}"
        )

    def rollout(self, array: Array, field: str, first_step: int, advice: str = OF_ENV) -> None:
        """Check an array [T, N, ...] whose first row is of step ``first_step``."""
        if not math.isfinite(np.vdot(array, array)):
            for t, row in enumerate(array):
                self.check(row, field, first_step + t, advice=advice)

    def observations(self, observation: Mapping[str, Array], step: int, env: int | None = None) -> None:
        """Check every leaf."""
        for name, array in observation.items():
            self.check(array, "observation" if name == "obs" else f"observation {name!r}", step, env)


def read_costs(infos: Sequence[Mapping[str, Any]], key: str, step: int) -> list[float] | None:
    """``info[key]`` of each env as finite numbers, or None if no env gives it (R04)."""
    for info in infos:  # a generator would take several times as long, at every step
        if key in info:
            break
    else:
        return None
    costs = []
    for i, info in enumerate(infos):
        value = info.get(key, 0.0)
        try:
            cost = float(value)
        except (TypeError, ValueError):
            raise EnvError(f"info[{key!r}] of env {i} at step {step} is {value!r}, not a number") from None
        if not math.isfinite(cost):
            raise NonFiniteError(f"info[{key!r}] of env {i} at step {step} is {cost}; costs must be finite")
        costs.append(cost)
    return costs
