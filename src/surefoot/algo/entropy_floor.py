"""An entropy bonus that is paid as long as the entropy is below a floor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from surefoot.algo.loss_term import LossTerm, TermInputs, TermMetric, TermResult
from surefoot.errors import ConfigError

if TYPE_CHECKING:
    from surefoot.algo.record import UpdateRecord

FIRST, LARGEST, FACTOR = 1e-3, 1.0, 1.5


class EntropyFloor(LossTerm):
    """Minus the entropy of each row, times a coefficient that reacts: after an update whose mean entropy was below the
    floor it grows by half (from 0.001), after one above it falls by a third, and to 0 once below 0.001. It is added to
    ent_coef."""

    name = "entropy_floor"
    compilable = True
    metrics = (
        TermMetric("train/entropy_below_floor", "mean", "nats", "By how much the entropy is below entropy_floor."),
    )

    def __init__(self, floor: float, most: float = math.inf) -> None:
        """``most`` is the largest entropy that there is."""
        super().__init__(0.0)
        self._floor, self._most = floor, most

    def prepare(self) -> None:
        if self._floor >= self._most:
            raise ConfigError(
                f"ppo.entropy_floor = {self._floor:g} is out of reach: the entropy of these actions is at most "
                f"{self._most:.4g} nats; set a lower one"
            )

    def __call__(self, inputs: TermInputs, numbers: Sequence[Tensor | float], drawn: Sequence[Tensor]) -> TermResult:
        return TermResult(-inputs.entropy, ((self._floor - inputs.entropy).clamp(min=0.0),))

    def advance(self, record: UpdateRecord) -> None:
        now = float(self.numbers[0])
        if record.entropy < self._floor:
            now = min(max(now * FACTOR, FIRST), LARGEST)
        else:
            now = now / FACTOR if now / FACTOR >= FIRST else 0.0
        self.numbers = (now,)

    def restart(self) -> None:
        self.numbers = (0.0,)

    def state_dict(self) -> dict[str, Tensor]:
        return {"coefficient": torch.tensor(float(self.numbers[0]), dtype=torch.float64)}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        self.numbers = (float(saved["coefficient"]),)
