"""Entropy coefficient that decays, waits on a plateau, and keeps a floor (P07). Unit: updates."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EntropyDecayState:
    """All that the decay remembers: updates made, how many of them did not count, recent metric values."""

    updates: int = 0
    delayed: int = 0
    history: tuple[float, ...] = ()

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for `json.dumps`."""
        return asdict(self) | {"history": list(self.history)}

    @staticmethod
    def from_json(record: dict[str, Any]) -> EntropyDecayState:
        """The inverse of `state_dict`."""
        history = tuple(float(value) for value in record["history"])
        return EntropyDecayState(int(record["updates"]), int(record["delayed"]), history)


@dataclass(frozen=True, slots=True)
class EntropyDecay:
    """Linear decay of the entropy coefficient over the updates that count.

        c = max(floor, start + (floor − start)·(updates − delayed)/decay_updates)

    An update does not count (it is *delayed*) while the watched metric, for example the mean episode return,
    is on a plateau: over the last `plateau_window` values the mean of the newer half exceeds the mean of the
    older half by no more than `plateau_tolerance` (in the metric's unit). A plateau thus only holds
    exploration for longer; it never raises the coefficient nor lowers it. At most `decay_updates` are
    delayed, so that a run that has converged still ends at the floor. `plateau_window` = 0 switches the waiting off.
    """

    start: float
    floor: float
    decay_updates: int
    plateau_window: int = 0
    plateau_tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.floor <= self.start:
            raise ValueError(f"EntropyDecay needs 0 <= floor <= start, got floor={self.floor}, start={self.start}")
        if self.decay_updates < 1:
            raise ValueError(f"decay_updates must be at least 1, got {self.decay_updates}")
        if self.plateau_window < 0 or self.plateau_window == 1:
            raise ValueError(f"plateau_window must be 0 (off) or at least 2, got {self.plateau_window}")

    def coefficient(self, state: EntropyDecayState) -> float:
        """The coefficient to use in the coming update: `start` exactly in the first, never below `floor`."""
        share = min((state.updates - state.delayed) / self.decay_updates, 1.0)
        return max(self.floor, self.start + (self.floor - self.start) * share)

    def advance(self, state: EntropyDecayState, metric: float | None = None) -> EntropyDecayState:
        """The state after one update; `metric` is the newest value, None or NaN if there is none."""
        history = state.history
        if self.plateau_window and metric is not None and math.isfinite(metric):
            history = (*history, float(metric))[-self.plateau_window :]
        waits = self.is_plateau(history) and state.delayed < self.decay_updates
        return EntropyDecayState(state.updates + 1, state.delayed + int(waits), history)

    def is_plateau(self, history: tuple[float, ...]) -> bool:
        """Whether the window is full and its newer half not above its older half plus the tolerance."""
        if not self.plateau_window or len(history) < self.plateau_window:
            return False
        half = len(history) // 2
        older, newer = history[:half], history[-half:]
        return math.fsum(newer) / half - math.fsum(older) / half <= self.plateau_tolerance
