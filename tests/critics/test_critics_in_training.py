"""Critics inside the learner: gradients of the value loss, logs, resumption, compilation, learning."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from algo.building import batch_of, by_part, gradient_of, iterate, make_learner, shake, values_of
from critics.cases import CASES, Case
from surefoot import PPO
from surefoot.algo.record import UpdateRecord

VALUE_ONLY: dict[str, Any] = {"vf_coef": 1.0, "ent_coef": 0.0}
every_kind = pytest.mark.parametrize("kind", ["scalar", "quantile", "categorical"])
every_twin = pytest.mark.parametrize("twin", ["none", "heads", "trunks"])
resumed = pytest.mark.parametrize(
    "case",
    [
        case
        for case in CASES
        if (case.has(twin="trunks", popart=True) and case.has(clip_mode="mean_and_variance"))
        or (case.kind == "scalar" and case.has(popart=True))
        or (case.has(twin="none", clip_mode="none"))
    ],
    ids=str,
)


@every_kind
@every_twin
def test_the_value_loss_reaches_every_part_of_the_critic_and_nothing_of_the_actor(kind: str, twin: str) -> None:
    """C09. Without advantages and entropy bonus only the value loss is left."""
    learner = make_learner(critic={"kind": kind, "twin": twin}, **VALUE_ONLY)
    batch = batch_of(learner, learner.collect())
    gradient = gradient_of(learner, batch._replace(advantages=torch.zeros_like(batch.advantages)))
    parts = by_part(learner, gradient)
    own = {"value_encoder", "critic"} if twin == "none" else {"value_encoder", "critic1", "critic2"}
    assert set(parts) == {"encoder", "output"} | own
    for part, vector in parts.items():
        assert bool(vector.any()) == (part in own), part
    for slot in learner.flat.slots:
        if slot.name.split(".")[0] in own:
            assert gradient[slot.where].any(), slot.name


@every_kind
def test_a_shared_trunk_is_trained_by_the_value_loss(kind: str) -> None:
    settings: dict[str, Any] = {
        "policy": {"hidden_sizes": (16,), "shared": True},
        "critic": {"kind": kind, "twin": "heads"},
    }
    learner = make_learner(**settings, **VALUE_ONLY)
    batch = batch_of(learner, learner.collect())
    parts = by_part(learner, gradient_of(learner, batch._replace(advantages=torch.zeros_like(batch.advantages))))
    assert parts["encoder"].any()
    assert not parts["output"].any()


def test_rows_without_weight_do_not_train_a_distributional_critic() -> None:
    learner = make_learner(critic={"kind": "quantile", "twin": "heads", "clip_mode": "per_quantile"}, clip_range_vf=0.1)
    batch = batch_of(learner, learner.collect())
    shake(learner)
    weight = torch.ones_like(batch.weight)
    weight[::3] = 0.0
    spoilt = batch.prediction.clone()
    spoilt[::3] = 1e3
    expected = gradient_of(learner, batch._replace(weight=weight))
    assert torch.equal(gradient_of(learner, batch._replace(weight=weight, prediction=spoilt)), expected)


@resumed
def test_a_resumed_learner_goes_on_bit_for_bit(case: Case) -> None:
    """Y02: statistics, supports and rescaled weights are part of the state."""
    first = make_learner(**case.settings)
    iterate(first, 3, total=6)
    state = first.state_dict()
    second = make_learner(**case.settings)
    second.load_state_dict(state)
    records = [iterate(learner, 3, total=6) for learner in (first, second)]
    assert torch.equal(values_of(first), values_of(second))
    for name, buffer in first.policy.named_buffers():
        assert torch.equal(buffer, dict(second.policy.named_buffers())[name]), name
    assert records[0][-1].metrics == records[1][-1].metrics


def test_twins_are_logged_by_head() -> None:
    """C08."""
    record = iterate(
        make_learner(n_steps=64, batch_size=64, critic={"kind": "quantile", "twin": "heads", "popart": True}), 1
    )[0]
    logged = record.update.metrics() | record.metrics
    for key in ("critic1_grad_norm", "critic2_grad_norm", "critic_gap", "popart_mean", "popart_std"):
        assert logged[f"train/{key}"] > 0, key
    assert logged["train/critic1_grad_norm"] == record.update.gradient_norms["critic1"]
    for level in ("05", "25", "75", "95"):
        assert 0.0 <= logged[f"risk/coverage_{level}"] <= 1.0
    assert not [key for key in logged if key.startswith("warn/critic")]


def with_norms(record: UpdateRecord, first: float, second: float) -> dict[str, float]:
    values = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return UpdateRecord(**values | {"gradient_norms": {"critic1": first, "critic2": second}}).metrics()


def test_unequal_and_vanishing_twins_raise_a_warning() -> None:
    """C08: a ratio beyond 100 either way, or a norm below 1e-8."""
    record = iterate(make_learner(critic={"twin": "heads"}), 1)[0].update
    assert with_norms(record, 1.0, 0.0099)["warn/critic_grad_ratio"] == pytest.approx(1 / 0.0099)
    assert with_norms(record, 0.0099, 1.0)["warn/critic_grad_ratio"] == pytest.approx(0.0099)
    vanished = with_norms(record, 1.0, 9e-9)
    assert vanished["warn/critic2_vanishing_gradients"] == 9e-9
    assert not vanished.keys() & {"warn/critic1_vanishing_gradients", "warn/critic_grad_ratio"}
    both = with_norms(record, 0.0, 0.0)
    assert both["warn/critic1_vanishing_gradients"] == both["warn/critic2_vanishing_gradients"] == 0.0
    assert with_norms(record, 0.3, 0.1)["train/critics_grad_ratio"] == pytest.approx(3.0)
    assert with_norms(record, 0.3, 0.0)["train/critics_grad_ratio"] == math.inf
    assert not [key for key in with_norms(record, 1.0, 0.011) if key.startswith("warn/critic")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "critic",
    [{}, {"kind": "quantile"}, {"kind": "categorical"}, {"kind": "quantile", "twin": "heads", "popart": True}],
    ids=["scalar", "quantile", "categorical", "quantile-twin-popart"],
)
def test_each_kind_learns_to_balance_a_pole(critic: dict[str, Any]) -> None:
    """A random policy lasts 22 steps."""
    agent = PPO(
        "CartPole-v1", seed=0, n_envs=8, n_steps=64, batch_size=128, learning_rate=2e-3, compile=False, critic=critic
    )
    agent.learn(8192)
    assert agent.evaluate(10, seed=1).mean > 120
