"""A penalty on KL(old ‖ new) beside the clip (arxiv.org/abs/1707.06347, section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from surefoot.algo.loss_term import LossTerm, TermInputs, TermMetric, TermResult
from surefoot.math.kl import k3

if TYPE_CHECKING:
    from surefoot.actions.distribution import Family
    from surefoot.algo.record import UpdateRecord

BAND, FACTOR = 1.5, 2.0
LIMITS = (1e-6, 1e6)


class KLPenalty(LossTerm):
    """KL(π_old ‖ π) of each row: exact, or by k3 of the actions that were taken, whose mean has the same gradient.

    With a ``target`` the coefficient doubles after an update that ended with KL > 1.5·target and halves after one with
    KL < target/1.5, the rule of the paper.
    """

    name = "kl"
    compilable = True
    metrics = (TermMetric("train/kl_penalty", "mean", "nats", "KL(old ‖ new) that is punished, before kl_coef."),)

    def __init__(
        self, coefficient: float | str, target: float | None = None, exact_family: Family | None = None
    ) -> None:
        super().__init__(coefficient)
        self._target, self._family = target, exact_family
        self._first = coefficient

    def __call__(self, inputs: TermInputs, numbers: Sequence[Tensor | float], drawn: Sequence[Tensor]) -> TermResult:
        batch = inputs.batch
        if self._family is None:
            loss = k3(inputs.log_ratio)
        else:
            assert batch.parameters is not None, "an exact divergence needs the acting distribution"
            loss = self._family.bind(batch.parameters, batch.mask).kl(inputs.distribution)
        return TermResult(loss, (loss,))

    def advance(self, record: UpdateRecord) -> None:
        if self._target is None:
            return
        kl, now = record.kl_last, float(self.numbers[0])
        factor = FACTOR if kl > BAND * self._target else 1 / FACTOR if kl < self._target / BAND else 1.0
        self.numbers = (min(max(now * factor, LIMITS[0]), LIMITS[1]),)

    def restart(self) -> None:
        self.numbers = (self._first,)

    def state_dict(self) -> dict[str, Tensor]:
        if self._target is None:
            return {}
        return {"coefficient": torch.tensor(float(self.numbers[0]), dtype=torch.float64)}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        if self._target is not None:
            self.numbers = (float(saved["coefficient"]),)
