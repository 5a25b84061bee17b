"""A soft penalty on large logits, which guards against collapse (P08)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from surefoot.algo.loss_term import LossTerm, TermInputs, TermMetric, TermResult

LOGIT_BOUND = 10.0


class LogitPenalty(LossTerm):
    """Σ max(0, |logit| − 10)² over the first ``n_logits`` outputs, those that are logits."""

    name = "logit_penalty"
    compilable = True
    metrics = (TermMetric("train/logit_penalty", "mean", "1", "Penalty on large logits, before its coefficient."),)

    def __init__(self, coefficient: float | str, n_logits: int) -> None:
        super().__init__(coefficient)
        self._n_logits = n_logits

    def __call__(self, inputs: TermInputs, numbers: Sequence[Tensor | float], drawn: Sequence[Tensor]) -> TermResult:
        excess = (inputs.parameters[:, : self._n_logits].abs() - LOGIT_BOUND).clamp(min=0.0)
        loss = excess.square().sum(-1)
        return TermResult(loss, (loss,))
