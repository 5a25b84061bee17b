"""Limits that cannot be kept."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from surefoot.errors import SurefootWarning
from surefoot.risk.saved import flag, numbers

WINDOW = 50
"""Updates of each half of what is compared."""
LARGE_MULTIPLIER = 20.0
"""With it the policy learns hardly anything but the constraint: (A + λ·A_c)/(1 + λ)."""
GAIN = 0.1
"""Share of the violation by which it must have fallen from one half to the other to count as falling."""
NEGLIGIBLE = 0.05
"""A violation of so many standard deviations is one of the noise, not of the limit."""


class Reachability:
    """Tells when the multiplier grows and the violation does not fall: nothing that the policy does keeps the limit.

    The last 2·WINDOW violations are compared, half by half; so a constraint that is merely slow is not named.
    """

    def __init__(self, limit: str) -> None:
        self._limit = limit
        self._violations: list[float] = []
        self._said = False

    def update(self, violation: float, multiplier: float) -> dict[str, float]:
        """Take in a violation in standard deviations; ``warn/limit_unreachable`` while it looks so."""
        self._violations = [*self._violations, violation][-2 * WINDOW :]
        if len(self._violations) < 2 * WINDOW or multiplier < LARGE_MULTIPLIER:
            return {}
        before, now = (sum(half) / WINDOW for half in (self._violations[:WINDOW], self._violations[WINDOW:]))
        if now < NEGLIGIBLE or now < (1.0 - GAIN) * before:
            return {}
        if not self._said:
            self._said = True
            warnings.warn(
                f"the limit {self._limit} looks out of reach: over {2 * WINDOW} updates the multiplier grew to "
                f"{multiplier:.3g} and the violation did not fall ({before:.3g}, then {now:.3g} standard deviations). "
                "The policy learns hardly anything but the constraint; loosen the limit (warn/limit_unreachable)",
                SurefootWarning,
                stacklevel=2,
            )
        return {"warn/limit_unreachable": now}

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"violations": self._violations, "said": self._said}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        self._violations, self._said = numbers(state["violations"]).tolist(), flag(state["said"])
