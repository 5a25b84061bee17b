"""The contract of loss terms: every kind that is registered runs every test here, alone and with the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from algo.building import batch_of, gradient_of, iterate, make_learner, shake
from surefoot.algo.entropy_floor import EntropyFloor
from surefoot.algo.imitation import DemonstrationImitation, OwnImitation
from surefoot.algo.kl_penalty import KLPenalty
from surefoot.algo.learner import Learner
from surefoot.algo.logit_penalty import LogitPenalty
from surefoot.algo.loss_term import LossTerm, TermInputs
from surefoot.algo.loss_terms import LOSS_TERMS
from surefoot.algo.metrics import TABLE
from surefoot.algo.robust import RobustKL

DEMOS = "DEMOS"
"""Stands for a file that a fixture writes."""
ROBUST = {
    "robust": {"kind": "sa_ppo", "epsilon": 0.3, "steps": 2, "ramp": 0.0, "coef": "linear(2, 1)"},
    "normalize_observations": True,
}
CASES: dict[str, tuple[type[LossTerm], str, dict[str, Any]]] = {
    "imitation of own rollouts": (
        OwnImitation,
        "CartPole-v1",
        {"imitation": {"coef": "linear(1, 0.5)", "beta": 0.5}},
    ),
    "imitation of demonstrations": (
        DemonstrationImitation,
        "CartPole-v1",
        {"imitation": {"coef": "linear(1, 0.5)", "demonstrations": DEMOS}, "normalize_observations": True},
    ),
    "robust, categorical": (RobustKL, "CartPole-v1", ROBUST),
    "robust, Gaussian": (RobustKL, "Pendulum-v1", ROBUST),
    "KL penalty": (KLPenalty, "CartPole-v1", {"kl_coef": "linear(2, 1)"}),
    "exact and adaptive KL penalty": (
        KLPenalty,
        "Pendulum-v1",
        {"kl_coef": 0.5, "adaptive_kl_coef": True, "target_kl": 1e-3, "kl_estimator": "exact", "learning_rate": 1e-3},
    ),
    "entropy floor": (EntropyFloor, "Pendulum-v1", {"entropy_floor": 3.0}),
    "logit penalty": (LogitPenalty, "CartPole-v1", {"logit_penalty": "linear(0.5, 0.1)"}),
}
"""By name: the kind, an env, and settings that ask for the term alone."""
every_case = pytest.mark.parametrize("case", CASES)
LARGE_LOGITS = 15.0


@pytest.fixture(scope="module", autouse=True)
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file of demonstrations for CartPole."""
    path, rng = tmp_path_factory.mktemp("demos") / "demos.npz", np.random.default_rng(0)
    arrays = {"observation": rng.normal(size=(30, 4)).astype(np.float32), "action": rng.integers(0, 2, 30)}
    np.savez(path, **arrays, reward=rng.normal(size=30))  # type: ignore[arg-type]
    CASES["imitation of demonstrations"][2]["imitation"]["demonstrations"] = str(path)


def learner_of(case: str, **more: Any) -> Learner:
    kind, env, settings = CASES[case]
    learner = make_learner(env, **settings | more)
    if kind is LogitPenalty:  # so that there is something to punish
        learner.policy.output.linear.bias.data.copy_(
            torch.linspace(-LARGE_LOGITS, LARGE_LOGITS, learner.family.n_logits)
        )
    return learner


def inputs_of(learner: Learner) -> TermInputs:
    """The rows of a rollout, seen by a policy that has moved since."""
    batch = batch_of(learner, learner.collect())
    shake(learner)
    parameters, _ = learner.policy(batch.observation, batch.sequences)
    distribution = learner.family.bind(parameters, batch.mask)
    action = torch.zeros(1) if batch.action is None else batch.action
    log_ratio = distribution.log_prob(action) - batch.log_prob

    def forward(observation: Any, in_sequence: bool) -> torch.Tensor:
        return learner.policy.parameters_at(observation, batch.sequences if in_sequence else None)

    return TermInputs(
        parameters, distribution, batch, log_ratio, torch.ones_like(log_ratio), distribution.entropy(), forward
    )


def test_every_kind_has_a_case() -> None:
    assert {kind for kind, _, _ in CASES.values()} == set(LOSS_TERMS)


@every_case
def test_a_term_is_made_only_when_it_is_asked_for(case: str) -> None:
    kind, env, _ = CASES[case]
    (term,) = learner_of(case).terms
    assert type(term) is kind
    assert make_learner(env).terms == ()


@every_case
def test_its_values_are_finite_and_one_per_row_or_one_for_all(case: str) -> None:
    learner = learner_of(case)
    (term,) = learner.terms
    inputs = inputs_of(learner)
    n_rows = inputs.batch.weight.shape[0]
    term.begin(inputs.batch.advantages, inputs.batch.weight)
    numbers = learner.plan.at(0, 1).terms[0]
    assert len(numbers) == len(term.numbers) >= 1
    result = term(inputs, numbers, term.draw(n_rows))
    assert len(result.metrics) == len(term.metrics)
    for x in (result.loss, *result.metrics):
        assert x.shape in ((n_rows,), ())
        assert torch.isfinite(x).all()
    assert result.loss.requires_grad
    assert result.loss.mean() != 0.0


@every_case
def test_its_metrics_are_in_the_table_and_logged(case: str) -> None:
    learner = learner_of(case)
    (record,) = iterate(learner, 1)
    for metric in learner.terms[0].metrics:
        assert TABLE[metric.key].meaning == metric.meaning
        assert metric.key in record.update.metrics()
    if CASES[case][0] is EntropyFloor:  # which needs them
        return
    bare = learner_of(case, diagnostics=False)
    (record,) = iterate(bare, 1)
    assert not {metric.key for metric in bare.terms[0].metrics} & set(record.update.metrics())


@every_case
def test_its_gradient_is_in_proportion_to_its_coefficient(case: str) -> None:
    learner = learner_of(case)
    batch = batch_of(learner, learner.collect())
    shake(learner)
    (term,) = learner.terms
    term.begin(batch.advantages, batch.weight)
    plan, saved = learner.plan.at(0, 1), {name: x.clone() for name, x in term.state_dict().items()}

    def gradient(coefficient: float) -> torch.Tensor:
        term.load_state_dict(saved)  # the same random numbers each time
        numbers = (coefficient, *plan.terms[0][1:])
        return gradient_of(learner, batch, plan._replace(terms=(numbers,)))

    none, one, two = (gradient(c) for c in (0.0, 1.0, 2.0))
    assert (one - none).abs().max() > 1e-6
    torch.testing.assert_close(two - none, 2 * (one - none), rtol=1e-3, atol=1e-5)


@every_case
def test_a_saved_learner_goes_on_bit_for_bit(case: str) -> None:
    whole, cut = learner_of(case), learner_of(case)
    iterate(whole, 4, total=4)
    iterate(cut, 2, total=4)
    resumed = learner_of(case, seed=5)
    resumed.load_state_dict(cut.state_dict())
    iterate(resumed, 2, total=4)
    assert torch.equal(whole.flat.values, resumed.flat.values)
    for name, x in whole.terms[0].state_dict().items():
        assert torch.equal(x, resumed.terms[0].state_dict()[name])


@every_case
def test_a_term_that_is_not_finite_is_named(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learner_of(case, max_nonfinite_updates=100)
    kind = type(learner.terms[0])
    plain = kind.__call__

    def broken(self: LossTerm, *given: Any) -> Any:
        result = plain(self, *given)
        return result._replace(loss=result.loss * torch.inf)

    monkeypatch.setattr(kind, "__call__", broken)
    before = learner.flat.values.clone()
    (record,) = iterate(learner, 1)
    assert record.update.gradient_steps == 0
    assert kind.name.replace("_", " ") in record.update.non_finite[0]
    assert torch.equal(learner.flat.values, before)
