"""State-adversarial PPO: the worst perturbation is found, and the term's gradient is that of the policy there (S01)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from algo.building import batch_of, gradient_of, iterate, make_learner, shake
from surefoot.algo.learner import Learner
from surefoot.algo.loss_term import TermInputs
from surefoot.config import from_flat
from surefoot.errors import ConfigError
from surefoot.math.adversary import projected_ascent

SA: dict[str, Any] = {"kind": "sa_ppo", "epsilon": 0.5, "steps": 8, "ramp": 0.0}


def robust_learner(env: str = "CartPole-v1", robust: dict[str, Any] | None = None, **settings: Any) -> Learner:
    settings = {"normalize_observations": True, "policy": {"hidden_sizes": (4,)}} | settings
    learner = make_learner(env, robust=SA | (robust or {}), **settings)
    shake(learner, 0.5)
    return learner


def inputs_of(learner: Learner, rows: int) -> TermInputs:
    batch = batch_of(learner, learner.collect()).rows(slice(0, rows))
    parameters, _ = learner.policy(batch.observation, None)
    distribution = learner.family.bind(parameters, batch.mask)
    zeros = torch.zeros(rows)

    def forward(observation: Any, in_sequence: bool) -> Tensor:
        return learner.policy.parameters_at(observation, None)

    return TermInputs(parameters, distribution, batch, zeros, zeros, zeros, forward)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_the_search_comes_near_a_brute_force_maximum(env: str) -> None:
    """Against a grid over two features, 41 x 41 points; all others are fixed. A divergence has a maximum on each side
    of s, of which one search finds one: the best of thirty is compared."""
    n_features = 4 if env == "CartPole-v1" else 3
    fixed = [str(i) for i in range(2, n_features)]
    learner = robust_learner(env, {"fixed_features": fixed})
    (term,) = learner.terms
    inputs = inputs_of(learner, 6)
    found = torch.zeros(6)
    for _ in range(30):
        result = term(inputs, (1.0, 0.5), term.draw(6))
        assert (result.loss >= result.metrics[1] - 1e-6).all()
        found = torch.maximum(found, result.loss.detach())
    clean = learner.family.bind(inputs.parameters.detach())
    line = torch.linspace(-0.5, 0.5, 41)
    best = torch.zeros(6)
    for a in line.tolist():
        for b in line.tolist():
            moved = inputs.batch.observation["obs"] + torch.tensor([a, b, *[0.0] * (n_features - 2)])
            with torch.no_grad():
                best = torch.maximum(
                    best, clean.kl(learner.family.bind(learner.policy.action_parameters({"obs": moved})))
                )
    assert (found <= best * 1.01 + 1e-6).all()
    assert (found >= 0.99 * best).all()


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_the_gradient_is_that_of_the_policy_at_the_worst_observation(env: str) -> None:
    """Danskin: brute force finds ŝ of each of six rows on a grid of one feature, on the side of s where the search
    begins, and the gradient there is taken by hand."""
    n_features = 4 if env == "CartPole-v1" else 3
    fixed = [str(i) for i in range(1, n_features)]
    learner = robust_learner(env, robust={"fixed_features": fixed, "steps": 50})
    (term,) = learner.terms
    inputs = inputs_of(learner, 6)
    drawn = term.draw(6)
    term(inputs, (1.0, 0.5), drawn).loss.sum().backward()  # type: ignore[no-untyped-call]
    found = learner.flat.gradient.clone()
    learner.flat.gradient.zero_()
    sides = torch.sign(drawn[0][:, 0])
    assert set(sides.tolist()) == {-1.0, 1.0}
    grid = torch.zeros(6, 1001, n_features)
    grid[:, :, 0] = sides[:, None] * torch.linspace(0.0, 0.5, 1001)
    for row in range(6):
        seen = inputs.batch.observation["obs"][row] + grid[row]
        clean = learner.family.bind(inputs.parameters[row].detach().expand(1001, -1))
        clean.kl(learner.family.bind(learner.policy.action_parameters({"obs": seen}))).max().backward()  # type: ignore[no-untyped-call]
    assert found.abs().max() > 1e-3
    torch.testing.assert_close(found, learner.flat.gradient, rtol=0.02, atol=1e-4)


def test_the_search_leaves_no_gradient_behind() -> None:
    learner = robust_learner()
    (term,) = learner.terms
    inputs = inputs_of(learner, 6)
    learner.flat.gradient.zero_()
    term(inputs, (1.0, 0.5), term.draw(6))
    assert not learner.flat.gradient.any()
    assert all(parameter.grad_fn is None for parameter in learner.policy.parameters())


def test_steps_stay_in_the_box_and_fixed_entries_at_0() -> None:
    attackable = {"obs": torch.tensor([1.0, 0.0, 1.0])}
    direction = {"obs": torch.tensor([[1.0, 1.0, -1.0], [0.2, -1.0, 0.3]])}

    def objective(perturbation: dict[str, Tensor]) -> Tensor:
        return (perturbation["obs"] * torch.tensor([5.0, 5.0, -2.0])).sum(1)

    found = projected_ascent(objective, direction, 0.25, 4, attackable)
    # From 0.0625 of each direction, four steps of 0.0625: 0.3125 is cut to 0.25, and 0.01875 − 0.25 is not.
    assert found.perturbation["obs"].tolist() == [
        pytest.approx(row) for row in ([0.25, 0, -0.25], [0.25, 0, 0.01875 - 0.25])
    ]
    assert found.first.tolist() == pytest.approx([0.0625 * 7, 0.0625 * (1.0 - 0.6)])


def test_epsilon_rises_over_the_first_part_of_training() -> None:
    learner = robust_learner(robust={"ramp": 0.5, "epsilon": 0.4})
    found = [record.update.values["train/robust_epsilon"] for record in iterate(learner, 8)]
    assert found[0] < 0.2
    assert found == sorted(found)
    assert found[4:] == pytest.approx([0.4] * 4)


def test_training_makes_the_policy_act_alike() -> None:
    found = []
    for coef in (1e-9, 20.0):
        learner = robust_learner(robust={"coef": coef}, learning_rate=1e-2, n_epochs=4)
        found.append([record.update.values["train/robust_kl"] for record in iterate(learner, 8)])
    assert found[1][-1] < 0.3 * found[0][-1]


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {"memory": {"kind": "lstm", "hidden_size": 8}}),
        ("Pendulum-v1", {"memory": {"kind": "gru", "hidden_size": 8}, "critic": {"kind": "quantile"}}),
        ("surefoot/Greenhouse-v0", {}),
        ("surefoot/Greenhouse-v0", {"memory": {"kind": "lstm", "hidden_size": 8}}),
        ("CartPole-v1", {"micro_batch_size": 5}),
    ],
)
def test_it_goes_with_memory_heads_masks_and_pieces(env: str, settings: dict[str, Any]) -> None:
    learner = robust_learner(env, {"steps": 2}, **settings)
    (record,) = iterate(learner, 1)
    assert record.update.gradient_steps > 0
    values = record.update.values
    assert values["train/robust_kl"] > values["train/robust_kl_random"] > 0.0


def test_a_whole_sequence_is_perturbed() -> None:
    """With memory the divergence of a step depends on the perturbation of those before it."""
    learner = robust_learner(memory={"kind": "lstm", "hidden_size": 8}, robust={"steps": 2})
    seen: list[bool] = []
    plain = learner.policy.parameters_at

    def watched(observation: Any, sequences: Any) -> Tensor:
        seen.append(sequences is not None)
        return plain(observation, sequences)

    learner.policy.parameters_at = watched  # type: ignore[method-assign]
    iterate(learner, 1)
    assert seen
    assert all(seen)


def test_the_gradient_of_the_rest_is_untouched() -> None:
    learner = robust_learner()
    batch = batch_of(learner, learner.collect())
    coefficients = learner.plan.at(0, 1)
    without = gradient_of(learner, batch, coefficients._replace(terms=((0.0, 0.5),)))
    learner.terms = ()
    plain = gradient_of(learner, batch, coefficients._replace(terms=()))
    assert torch.allclose(without, plain, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"robust": {"kind": "sa_ppo"}}, r"robust\.epsilon = 0\.1 has no scale: set ppo\.normalize_observations"),
        ({"robust": {"kind": "sa_ppo", "units": "raw"}, "normalize_observations": True}, "contradicts"),
        ({"robust": {"epsilon": 0.2}}, r'robust\.epsilon needs robust\.kind: "sa_ppo"'),
        ({"robust": {"kind": "sa_ppo", "epsilon": 0.0}, "normalize_observations": True}, r"robust\.epsilon"),
        ({"robust": {"kind": "sa_ppo", "coef": 0.0}, "normalize_observations": True}, r"robust\.coef = 0"),
        ({"robust": {"kind": "sa_pp"}}, "did you mean 'sa_ppo'"),
    ],
)
def test_settings_that_cannot_act_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        from_flat(**settings)


@pytest.mark.parametrize(
    ("env", "fixed", "told"),
    [
        ("CartPole-v1", ["obz"], r"no float feature 'obz' \(there are obs\).*did you mean 'obs'"),
        ("CartPole-v1", ["obs:4"], "'obs' has the entries 0 to 3"),
        ("CartPole-v1", ["²"], "no float feature"),
        ("CartPole-v1", ["obs"], "leaves no feature"),
        ("CartPole-v1", ["0", "1", "2", "3"], "leaves no feature"),
    ],
)
def test_features_that_do_not_exist_are_refused(env: str, fixed: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        robust_learner(env, {"fixed_features": fixed})


def test_observations_without_floats_are_refused() -> None:
    with pytest.raises(ConfigError, match="no float numbers"):
        make_learner("FrozenLake-v1", robust=SA | {"units": "raw"})
