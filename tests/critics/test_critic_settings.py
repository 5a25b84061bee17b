"""The section ``critic``: every field changes what is learned, and contradictions are refused by name (P12)."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import torch

from algo.building import batch_of, gradient_of, iterate, make_learner, values_of
from critics.cases import Case
from surefoot.config import from_flat
from surefoot.errors import ConfigError

SCALAR: dict[str, Any] = {"critic": {}}
QUANTILE: dict[str, Any] = {"critic": {"kind": "quantile"}}
CATEGORICAL: dict[str, Any] = {"critic": {"kind": "categorical"}}


def with_critic(base: dict[str, Any], **more: Any) -> dict[str, Any]:
    return base | {"critic": base["critic"] | more}


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (with_critic(SCALAR, n_quantiles=16), ["critic.n_quantiles", '"quantile"']),
        (with_critic(CATEGORICAL, kappa=0.5), ["critic.kappa", '"quantile"']),
        (with_critic(QUANTILE, n_atoms=21), ["critic.n_atoms", '"categorical"']),
        (with_critic(QUANTILE, v_min=0.0, v_max=1.0), ["critic.v_min", "critic.v_max", '"categorical"']),
        (with_critic(CATEGORICAL, v_min=0.0), ["critic.v_min", "critic.v_max"]),
        (with_critic(CATEGORICAL, v_min=1.0, v_max=1.0), ["critic.v_min = 1", "critic.v_max = 1"]),
        (with_critic(CATEGORICAL, v_min=0.0, v_max=1.0, popart=True), ["critic.popart", "critic.v_min"]),
        (with_critic(SCALAR, targets="backup"), ["critic.targets", "critic.kind"]),
        (with_critic(SCALAR, targets="monte_carlo"), ["critic.targets", "critic.kind"]),
        (with_critic(SCALAR, clip_mode="mean_only") | {"clip_range_vf": 0.2}, ["critic.clip_mode", "critic.kind"]),
        (with_critic(QUANTILE, clip_mode="mean_only"), ["critic.clip_mode", "ppo.clip_range_vf"]),
        (QUANTILE | {"clip_range_vf": 0.2}, ["ppo.clip_range_vf", "critic.clip_mode"]),
        (with_critic(SCALAR, twin="trunks") | {"policy": {"shared": True}}, ["critic.twin", "policy.shared"]),
        (with_critic(SCALAR, twin="trunks") | {"memory": {"kind": "lstm"}}, ["critic.twin", "memory.kind"]),
        (with_critic(QUANTILE, n_quantiles=1), ["critic.n_quantiles"]),
        (with_critic(QUANTILE, kappa=-0.1), ["critic.kappa"]),
        (with_critic(SCALAR, kind="quantiles"), ["critic.kind", "'quantile'"]),
        (with_critic(SCALAR, twin="head"), ["critic.twin", "'heads'"]),
    ],
)
def test_contradictions_are_refused_by_name(settings: dict[str, Any], names: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        from_flat(**settings)
    for name in names:
        assert name in str(refusal.value)


CLIPPED = {"clip_range_vf": 0.01, "learning_rate": 0.05}
PAIRS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (QUANTILE, CATEGORICAL),
    (QUANTILE, with_critic(QUANTILE, n_quantiles=8)),
    (QUANTILE, with_critic(QUANTILE, kappa=0.5)),
    (QUANTILE, with_critic(QUANTILE, targets="backup")),
    # Far from its targets a narrow loss has the same slope for all of them.
    (with_critic(QUANTILE, kappa=1.0), with_critic(QUANTILE, kappa=1.0, targets="monte_carlo")),
    (CATEGORICAL, with_critic(CATEGORICAL, targets="monte_carlo")),
    (QUANTILE, with_critic(QUANTILE, popart=False)),
    (QUANTILE, with_critic(QUANTILE, twin="heads")),
    (with_critic(SCALAR, twin="heads"), with_critic(SCALAR, twin="trunks")),
    (CATEGORICAL, with_critic(CATEGORICAL, n_atoms=21)),
    (CATEGORICAL, with_critic(CATEGORICAL, v_min=0.0, v_max=50.0)),
    (
        with_critic(CATEGORICAL, v_min=0.0, v_max=50.0),
        with_critic(CATEGORICAL, v_min=-20.0, v_max=50.0),
    ),
    (CATEGORICAL, with_critic(CATEGORICAL, targets="backup")),
    (
        with_critic(CATEGORICAL, clip_mode="mean_only") | CLIPPED,
        with_critic(CATEGORICAL, clip_mode="mean_only", popart=False) | CLIPPED,
    ),
    *(
        (base, with_critic(base, clip_mode=mode) | CLIPPED)
        for base in (QUANTILE, CATEGORICAL)
        for mode in ("mean_only", "mean_and_variance", "per_quantile")
    ),
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=[f"{Case(b['critic'], 'clip_range_vf' in b)}" for _, b in PAIRS])
def test_each_setting_changes_what_is_learned(one: dict[str, Any], other: dict[str, Any]) -> None:
    learned = []
    for settings in (one, other):
        learner = make_learner(**settings)
        iterate(learner, 2)
        learned.append(values_of(learner))
    assert learned[0].shape != learned[1].shape or not torch.equal(learned[0], learned[1])


@pytest.mark.parametrize(
    ("critic", "in_return_stds"),
    [
        ({}, True),
        ({"kind": "quantile"}, True),
        ({"kind": "categorical"}, True),
        ({"kind": "categorical", "v_min": -1.0, "v_max": 1.0}, False),
        ({"popart": False}, False),
    ],
)
def test_a_critic_predicts_in_spreads_of_its_returns_unless_its_support_is_fixed(
    critic: dict[str, Any], in_return_stds: bool
) -> None:
    learner = make_learner(critic=critic)
    (record,) = iterate(learner, 1)
    assert ("train/popart_std" in record.metrics) == in_return_stds
    assert from_flat(critic=critic) == from_flat(critic=from_flat(critic=critic).critic.model_dump())


@pytest.mark.parametrize("kind", ["quantile", "categorical"])
def test_each_clip_mode_has_its_own_gradient(kind: str) -> None:
    """Against old predictions that were narrower and lay elsewhere."""
    gradients = []
    for mode in ("mean_only", "mean_and_variance", "per_quantile"):
        learner = make_learner(critic={"kind": kind, "clip_mode": mode, "popart": False}, clip_range_vf=0.01)
        batch = batch_of(learner, learner.collect())
        old = 20.0 * batch.prediction.roll(1, 1) if kind == "categorical" else 0.1 * batch.prediction - 0.5
        gradients.append(gradient_of(learner, batch._replace(prediction=old)))
    for one, other in combinations(gradients, 2):
        assert not torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize(
    ("risk", "targets"),
    [
        ({}, "lambda"),
        ({"kind": "cvar_constraint", "alpha": 0.5, "limit_per_episode": 10.0}, "monte_carlo"),
        ({"kind": "cvar_objective", "alpha": 0.5}, "monte_carlo"),
    ],
)
def test_who_asks_for_tails_gets_whole_returns(risk: dict[str, Any], targets: str) -> None:
    critic = {"kind": "quantile", "kappa": 1.0}
    learned = []
    for chosen in ("auto", "lambda", "monte_carlo"):
        learner = make_learner(n_steps=64, batch_size=64, critic=critic | {"targets": chosen}, risk=risk)
        iterate(learner, 2)
        learned.append(values_of(learner))
    assert torch.equal(learned[0], learned[1]) == (targets == "lambda")
    assert torch.equal(learned[0], learned[2]) == (targets == "monte_carlo")
