"""Terms by head from a compiled step are those of the plain one."""

from __future__ import annotations

from typing import Any

import pytest

from algo.building import make_learner
from surefoot.fast.compiled_step import CompiledStep
from surefoot.worlds import register_envs

register_envs()
GREENHOUSE, CHOICES = "surefoot/Greenhouse-v0", "surefoot/IdentityMulti-v0"


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        (GREENHOUSE, {}),
        (GREENHOUSE, {"ent_coef": 0.01, "head_ent_coefs": {"slot": "linear(0.1, 0)"}}),
        (GREENHOUSE, {"kl_estimator": "exact", "target_kl": 0.02}),
        (CHOICES, {"ent_coef": 0.01, "head_ent_coefs": {"1": 0.1}}),
    ],
    ids=["plain", "coefficients", "exact KL", "independent choices"],
)
def test_compiled_and_eager_agree(env: str, settings: dict[str, Any]) -> None:
    given = {"n_steps": 32, "batch_size": 32, "n_epochs": 3, "learning_rate": 1e-3} | settings
    eager, compiled = (make_learner(env, **given) for _ in range(2))
    compiled.updater.step = CompiledStep(compiled.updater.step, compiler=lambda graph, inputs: graph)
    for _ in range(5):
        records = [learner.learn(learner.collect(), 5).update for learner in (eager, compiled)]
        for name in eager.family.head_names:
            one, other = (record.heads[name] for record in records)
            assert one.count == other.count
            assert one.kl == pytest.approx(other.kl, rel=1e-2, abs=1e-6)
            assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-3)
    assert (eager.flat.values - compiled.flat.values).abs().max() < 1e-5
