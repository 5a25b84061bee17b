"""Loss terms in the compiled gradient step."""

from __future__ import annotations

import pytest

from contract.test_loss_terms import demonstrations, every_case, learner_of
from surefoot.fast.compiled_step import CompiledStep

__all__ = ["demonstrations"]
"""A fixture that every case here uses."""


@every_case
def test_compiled_and_eager_agree(case: str) -> None:
    eager, compiled = learner_of(case), learner_of(case)
    assert compiled.terms[0].compilable
    compiled.updater.step = CompiledStep(compiled.updater.step, compiler=lambda graph, inputs: graph)
    for _ in range(4):
        records = [learner.learn(learner.collect(), 4).update.metrics() for learner in (eager, compiled)]
        for metric in eager.terms[0].metrics:
            assert records[0][metric.key] == pytest.approx(records[1][metric.key], rel=1e-3, abs=1e-5)
    assert (eager.flat.values - compiled.flat.values).abs().max() < 1e-5
