"""Finds NaN and Inf in what comes from environments and from the policy, and names env and step (R04, O09)."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import EnvError, NonFiniteError
from surefoot.spaces import FLOAT32_MAX, Array, real_numbers
from surefoot.vector.infos import Infos

SUCCESS_KEY = "is_success"
OF_ENV = "Correct the env, or mask the source of the value"
OF_POLICY = "The policy gave it: lower learning_rate, or go on from an earlier checkpoint"


class Limit(NamedTuple):
    """The largest number that can be worked with, and what is said of a larger one."""

    largest: float
    words: str


UNLIMITED = Limit(math.inf, "")
OF_FLOAT32 = Limit(FLOAT32_MAX, "beyond float32. Scale it in the env")


def observation_limit(normalizes: bool) -> Limit:
    """What observations must stay within. A normalizer works in float64, and needs their squares."""
    if normalizes:
        return Limit(1e100, "beyond 1e+100, too large to be normalized. Scale it in the env")
    return Limit(FLOAT32_MAX, f"{OF_FLOAT32.words}, or set normalize_observations")


class Guard:
    """Checks arrays [N, ...] and names the env, the step and the field of the first bad number.

    The sum of the squares is finite only if all entries are, up to overflow; so one product settles the healthy case,
    and only a suspicious one is looked at entry by entry.
    """

    def __init__(self, normalizes: bool = False) -> None:
        """``normalizes``: a normalizer will see the observations."""
        self._of_observations = observation_limit(normalizes)

    def check(
        self,
        array: Array,
        field: str,
        step: int,
        envs: Array | None = None,
        advice: str = OF_ENV,
        limit: Limit = UNLIMITED,
    ) -> None:
        """Raise `NonFiniteError` if an entry is not finite or beyond the limit; ``envs`` are those of the rows if not
        all."""
        if array.dtype.kind != "f" or float(np.vdot(array, array)) < limit.largest * limit.largest:
            return
        bad = ~np.isfinite(array)
        finite = not bad.any()
        if finite:
            bad = np.abs(array) > np.float64(limit.largest)
            if not bad.any():
                return
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"[{', '.join(map(str, index[1:]))}]" if index[1:] else ""
        what = f", {limit.words}" if finite else f"; nothing was learned from it. {advice}"
        env = index[0] if envs is None else int(envs[index[0]])
        raise NonFiniteError(f"{field}{where} is {array[index]:g} in env {env} at step {step}{what}")

    def rollout(self, array: Array, field: str, first_step: int, advice: str = OF_ENV) -> None:
        """Check an array [T, N, ...] whose first row is of step ``first_step``."""
        if not math.isfinite(np.vdot(array, array)):
            for t, row in enumerate(array):
                self.check(row, field, first_step + t, advice=advice)

    def observations(self, observation: Mapping[str, Array], step: int, envs: Array | None = None) -> None:
        """Check every leaf; of all envs, or of those named."""
        for name, array in observation.items():
            field = "observation" if name == "obs" else f"observation {name!r}"
            self.check(array, field, step, envs, limit=self._of_observations)


def as_number(value: Any) -> float:
    """One real number; ValueError says what the value is instead."""
    try:
        shape = np.shape(value)
        if not shape and not np.iscomplexobj(value):
            return float(value)
    except OverflowError:
        raise ValueError("is too large for a float") from None
    except Exception as error:  # whatever a foreign type raises when it is asked for a number
        raise ValueError(f"is {reprlib.repr(value)}, not a number ({type(error).__name__}: {error})") from None
    raise ValueError(f"has shape {shape}, it is not a number" if shape else f"is {value}, not a number")


def read_costs(
    infos: Infos, key: str, step: int, needed: NDArray[np.bool_] | None = None
) -> NDArray[np.float64] | None:
    """``info[key]`` of each env as finite numbers [N], or None if no env gives it (R04).

    ``needed`` [N] marks the envs that must give it, because a limit rests on it: a cost that is missing there is an
    error, never 0 (R06). Without a limit costs are only logged, and a step that tells none counts as one that had none:
    many envs name a cost only where it arises.
    """
    if needed is None and not infos.has(key):
        return None
    column = infos.column(key)
    if column is not None:
        if needed is None and not column.given.any():
            return None
        costs = np.where(column.given, column.values, 0.0).astype(np.float64)
        complete = needed is None or not (needed & ~column.given).any()
        if complete and (np.abs(costs) <= FLOAT32_MAX).all():
            return costs
    return _costs_of_rows(infos, key, step, needed)


def _costs_of_rows(infos: Infos, key: str, step: int, needed: NDArray[np.bool_] | None) -> NDArray[np.float64] | None:
    """`read_costs`, env by env; an error names the env."""
    costs, found = np.zeros(len(infos)), False
    for i, info in enumerate(infos):
        if key not in info:
            if needed is not None and needed[i]:
                raise EnvError(
                    f'info[{key!r}] is missing in env {i} at step {step}, and risk.kind = "cost_constraint" limits it: '
                    "let the env put the cost of every step there, 0.0 where there is none, or name another key with "
                    "risk.cost_key"
                )
            continue
        try:
            cost = as_number(info[key])
        except ValueError as reason:
            raise EnvError(f"info[{key!r}] of env {i} at step {step} {reason}") from None
        if not math.isfinite(cost):
            raise NonFiniteError(f"info[{key!r}] of env {i} at step {step} is {cost}; costs must be finite")
        if abs(cost) > FLOAT32_MAX:
            raise NonFiniteError(f"info[{key!r}] of env {i} at step {step} is {cost:g}, beyond float32; scale it")
        costs[i], found = cost, True
    return costs if found or needed is not None else None


UNTOLD = -1
"""Of a success: the env does not say."""


def read_successes(infos: Infos, envs: NDArray[np.int64], step: int) -> NDArray[np.int8]:
    """``info["is_success"]`` of some envs: 1, 0, or `UNTOLD`."""
    if not infos.has(SUCCESS_KEY):
        return np.full(len(envs), UNTOLD, np.int8)
    column = infos.column(SUCCESS_KEY)
    if column is not None:
        values, given = column.values[envs], column.given[envs]
        if (~given | (values == 0) | (values == 1)).all():
            return np.where(given, values == 1, UNTOLD).astype(np.int8)
    told = (read_success(infos[i], i, step) for i in envs.tolist())
    return np.array([UNTOLD if success is None else success for success in told], np.int8)


def read_success(info: Mapping[str, Any], env: int, step: int) -> bool | None:
    """``info["is_success"]``; None if the env does not say."""
    given = info.get(SUCCESS_KEY)
    if given is None:
        return None
    try:
        flags = real_numbers(given)
        if flags.size == 1 and flags.item() in (0, 1):
            return bool(flags.item())
    except ValueError:
        pass
    raise EnvError(f"info['is_success'] of env {env} at step {step} is {reprlib.repr(given)}, not True or False")
