"""The Lagrange multiplier of one constraint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.config import RiskConfig
from surefoot.risk.saved import number

HORIZON = 50.0
"""Updates: a violation that vanishes within so many at its present pace is being dealt with."""
SLOPE_SMOOTHING = 0.9
LARGEST = 1e30
"""Of what is loaded: times an advantage it is still a float32."""


class Multiplier:
    """λ ≥ 0, which rises while the constraint is violated and falls while there is room (R03).

        s ← s + (1 − β)·(v − s),   I ← max(0, I + η·g·v),   λ = max(0, I + k_p·s + k_d·(s − s_before))

    v is the violation, positive if the constraint is broken. With k_p = k_d = 0 this is plain dual ascent, g = 1, which
    swings: it goes on pushing until the violation has changed sign. The proportional term eases off before that. Beside
    it g = 1 − clip(HORIZON·(shrinking of |s| in an update)/|s|, 0, 1): while a policy learns, its violation falls as
    fast as it can learn, and an integral of all that would take as long to come down again. A violation that lasts
    shrinks ever more slowly, so that g goes to 1 and λ grows without end (R07). λ has no upper bound. Source: Stooke,
    Achiam, Abbeel 2020, https://arxiv.org/abs/2007.03964 (algorithm 2), whose integral is without g.
    """

    def __init__(self, config: RiskConfig) -> None:
        self._proportional, self._derivative = config.multiplier_kp, config.multiplier_kd
        self._smoothing = config.multiplier_smoothing
        self.value = self.integral = config.multiplier_init
        self.smoothed: float | None = None
        self._slope = 0.0

    def update(self, violation: float, rate: float) -> float:
        """Take in a violation with the step size η = ``rate``; the new λ."""
        before = violation if self.smoothed is None else self.smoothed
        self.smoothed = before + (1.0 - self._smoothing) * (violation - before)
        change = self.smoothed - before
        self._slope += (1.0 - SLOPE_SMOOTHING) * (change - self._slope)
        self.integral = max(0.0, self.integral + rate * self._gain(self.smoothed) * violation)
        self.value = max(0.0, self.integral + self._proportional * self.smoothed + self._derivative * change)
        return self.value

    def _gain(self, smoothed: float) -> float:
        """g: 0 while the violation is being dealt with, 1 if it stays."""
        damped = self._proportional > 0.0 or self._derivative > 0.0
        if not damped or smoothed == 0.0:
            return 1.0
        shrinking = -self._slope if smoothed > 0.0 else self._slope
        return 1.0 - min(max(HORIZON * shrinking / abs(smoothed), 0.0), 1.0)

    def metrics(self) -> dict[str, float]:
        """By log key."""
        return {"risk/multiplier": self.value, "risk/multiplier_integral": self.integral}

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"value": self.value, "integral": self.integral, "smoothed": self.smoothed, "slope": self._slope}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        self.value, self.integral = (number(state[name], 0.0, LARGEST) for name in ("value", "integral"))
        self.smoothed = None if state["smoothed"] is None else number(state["smoothed"], -LARGEST, LARGEST)
        self._slope = number(state["slope"], -LARGEST, LARGEST)
