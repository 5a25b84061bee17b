"""Observation and reward normalizers. They are part of the model: saved with it, used wherever it acts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.math.moments import Moments, merge
from surefoot.spaces import Array, Layout

TINY = {np.dtype(np.float32): 1e-8, np.dtype(np.float64): 1e-13}
"""By dtype of the raw observation: a std below this share of the mean is rounding."""


class Drift(NamedTuple):
    """How far statistics moved in an update, in the feature where that is most."""

    mean: float
    """|μ_new − μ_old|/σ_old."""
    std: float
    """|σ_new/σ_old − 1|."""


class ObservationNormalizer:
    """(x − mean) / std by leaf, in the dtype of the raw observation, clipped; statistics of what the policy acted upon.

    Statistics are frozen within a rollout (M06). Only the very first rollout, which has nothing to freeze, updates them
    before each step; with ``follows``, every rollout does. Either way the update sees the numbers that were acted upon.
    """

    def __init__(self, layout: Layout, clip: float, follows: bool = False) -> None:
        self._names = [leaf.name for leaf in layout.leaves if leaf.is_continuous]
        self._raw = {leaf.name: leaf.raw_dtype for leaf in layout.leaves}
        self._clip = clip
        self.moments = {leaf.name: Moments.empty(leaf.shape) for leaf in layout.leaves if leaf.is_continuous}
        self._seen: list[tuple[Mapping[str, Array], NDArray[np.bool_]]] = []
        self._follows, self._following = follows, True
        self._scale: dict[str, tuple[Array, Array]] = {}
        self._freeze()
        self._finished = dict(self._scale)

    def update(self, observation: Mapping[str, Array], active: NDArray[np.bool_]) -> None:
        """Count observations [N, ...] that are about to be acted upon in ``active`` rows."""
        if self._following:
            self._update_moments(observation, active)
            self._freeze()
        else:
            self._seen.append((observation, active))

    def __call__(self, observation: Mapping[str, Array]) -> dict[str, Array]:
        """Normalized float32 copies of the continuous leaves; the others as they are."""
        out = dict(observation)
        for name in self._names:
            mean, inverse = self._scale[name]
            scaled = (observation[name] - mean) * inverse
            out[name] = np.minimum(np.maximum(scaled, -self._clip), self._clip).astype(np.float32, copy=False)
        return out

    def std(self, name: str) -> Array:
        """Standard deviations of a continuous leaf, as observations are divided by them now."""
        std: Array = 1.0 / self._scale[name][1]
        return std

    def varies(self, name: str) -> NDArray[np.bool_]:
        """Which entries of a continuous leaf have a standard deviation; the others keep their unit."""
        moments = self.moments[name]
        found: NDArray[np.bool_] = moments.std.numpy() > TINY[self._raw[name]] * np.abs(moments.mean.numpy())
        return found

    def finish_rollout(self) -> Drift:
        """End of an update: take in what the rollout saw."""
        before = self._finished
        if self._seen:
            active = np.stack([rows for _, rows in self._seen])
            self._update_moments({n: np.stack([seen[n] for seen, _ in self._seen]) for n in self._names}, active)
        self._seen.clear()
        self._following = self._follows
        self._freeze()
        self._finished = dict(self._scale)
        # The scale is 1/σ, so that σ_new/σ_old = old scale/new scale.
        of_mean = [np.abs((self._scale[n][0] - before[n][0]) * before[n][1]).max(initial=0.0) for n in self._names]
        of_std = [np.abs(before[n][1] / self._scale[n][1] - 1.0).max(initial=0.0) for n in self._names]
        return Drift(float(max(of_mean, default=0.0)), float(max(of_std, default=0.0)))

    def state_dict(self) -> dict[str, Tensor]:
        """Statistics by name."""
        parts: dict[str, Tensor] = {}
        for name, moments in self.moments.items():
            parts |= {f"{name}.count": moments.count, f"{name}.mean": moments.mean, f"{name}.m2": moments.m2}
        return parts

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore statistics."""
        for name in self._names:
            self.moments[name] = Moments(*(state[f"{name}.{part}"] for part in ("count", "mean", "m2")))
        self._following = self._follows or any(float(m.count) == 0 for m in self.moments.values())
        self._seen.clear()
        self._freeze()
        self._finished = dict(self._scale)

    def _update_moments(self, observation: Mapping[str, Array], active: NDArray[np.bool_]) -> None:
        for name in self._names:
            batch = Moments.from_batch(torch.from_numpy(observation[name][active]))
            self.moments[name] = merge(self.moments[name], batch)

    def _freeze(self) -> None:
        for name, moments in self.moments.items():
            # A feature that never varied keeps its unit: there is no std to scale by.
            raw, std = self._raw[name], moments.std.numpy()
            inverse = np.where(self.varies(name), 1 / np.maximum(std, 1e-30), 1.0)
            self._scale[name] = (moments.mean.numpy().astype(raw), inverse.astype(raw))


class RewardNormalizer:
    """Divides rewards by the running standard deviation of the discounted return; no mean is subtracted (A07).

    A rollout's own rewards are counted before it is scaled, so that the first is scaled as well as the rest; the scale
    is one number per rollout.
    """

    def __init__(self, n_envs: int, gamma: float, clip: float) -> None:
        self._gamma, self._clip = gamma, clip
        self.moments = Moments.empty(())
        self.running = torch.zeros(n_envs, dtype=torch.float64)

    def update_statistics(self, reward: Tensor, done: Tensor, valid: Tensor) -> float:
        """Count a rollout's raw rewards [T, N]; what predictions in the old unit become in the new one, as a factor.

        It is old scale / new scale (A11), but 1 if there was no unit before, because no return had differed from 0.
        """
        old = self._found_scale()
        # In numpy: a row is few numbers, so that the time is that of the calls.
        rewards, rows = reward.double().cpu().numpy(), valid.bool().cpu().numpy()
        ends = done.bool().cpu().numpy() | ~rows
        gamma = np.where(rows, self._gamma, 1.0)
        gained = np.where(rows, rewards, 0.0)
        stays = (~ends).astype(np.float64)
        discounted = np.empty_like(rewards)
        running = self.running.numpy().copy()
        for t in range(len(rewards)):
            running = running * gamma[t] + gained[t]
            discounted[t] = running
            running = running * stays[t]
        self.running = torch.from_numpy(running)
        self.moments = merge(self.moments, Moments.from_batch(torch.from_numpy(discounted[rows])))
        return old / self.scale if old is not None else 1.0

    @property
    def scale(self) -> float:
        """What rewards are divided by."""
        return self._found_scale() or 1.0

    def _found_scale(self) -> float | None:
        """None as long as every return was 0."""
        std, mean = float(self.moments.std), abs(float(self.moments.mean))
        if std > 1e-4 * mean:
            return std
        return mean if mean > 0 else None  # returns that do not vary are scaled by their size

    def __call__(self, reward: Tensor) -> Tensor:
        """Scaled and clipped rewards."""
        return (reward / self.scale).clamp(-self._clip, self._clip)

    def state_dict(self) -> dict[str, Tensor]:
        """Statistics by name."""
        moments = self.moments
        return {"count": moments.count, "mean": moments.mean, "m2": moments.m2, "running": self.running}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore statistics."""
        self.moments = Moments(state["count"], state["mean"], state["m2"])
        self.running = state["running"].clone()
