"""The Lagrange multiplier of one constraint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.config import RiskConfig


class Multiplier:
    """λ ≥ 0, which rises while the constraint is violated and falls while there is room (R03).

        I ← max(0, I + η·v),   s ← s + (1 − β)·(v − s),   λ = max(0, I + k_p·s + k_d·(s − s_before))

    v is the violation, positive if the constraint is broken. With k_p = k_d = 0 this is plain dual ascent, which
    swings: it goes on pushing until the violation has changed sign. The proportional term eases off before that. The
    integral is that of every violation: one that lasts moves λ without end, however slowly it shrinks (R07). λ has no
    upper bound. Source: Stooke, Achiam, Abbeel 2020, https://arxiv.org/abs/2007.03964 (algorithm 2).
    """

    def __init__(self, config: RiskConfig) -> None:
        self._proportional, self._derivative = config.multiplier_kp, config.multiplier_kd
        self._smoothing = config.multiplier_smoothing
        self.value = self.integral = config.multiplier_init
        self.smoothed: float | None = None

    def update(self, violation: float, rate: float) -> float:
        """Take in a violation with the step size η = ``rate``; the new λ."""
        before = violation if self.smoothed is None else self.smoothed
        self.smoothed = before + (1.0 - self._smoothing) * (violation - before)
        self.integral = max(0.0, self.integral + rate * violation)
        slope = self.smoothed - before
        self.value = max(0.0, self.integral + self._proportional * self.smoothed + self._derivative * slope)
        return self.value

    def metrics(self) -> dict[str, float]:
        """By log key."""
        return {"risk/multiplier": self.value, "risk/multiplier_integral": self.integral}

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"value": self.value, "integral": self.integral, "smoothed": self.smoothed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        self.value, self.integral = float(state["value"]), float(state["integral"])
        self.smoothed = None if state["smoothed"] is None else float(state["smoothed"])
