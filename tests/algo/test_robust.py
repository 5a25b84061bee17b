"""State-adversarial PPO: the worst perturbation is found, and the term's gradient is that of the policy there (S01)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from algo.building import batch_of, estimates_of, gradient_of, iterate, make_learner, shake, values_of
from surefoot import PPO
from surefoot.algo.batch import SequenceBatches, flatten
from surefoot.algo.learner import Learner
from surefoot.algo.loss_term import TermInputs
from surefoot.config import from_flat
from surefoot.errors import ConfigError, EnvError
from surefoot.market import Market, load_prices
from surefoot.math.adversary import ascent_on_both_sides, projected_ascent
from surefoot.rollout.features import entries_of
from train.agents import Random

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


@pytest.mark.parametrize("steps", [5, 8])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_value_and_gradient_are_those_of_a_brute_force_maximum(env: str, steps: int) -> None:
    """Danskin: on a grid over two features, 41 x 41 points and all others fixed, the worst ŝ of each row is found, and
    the gradient there is taken by hand. A divergence has a maximum on each side of s, and the larger one is meant."""
    n_features = 4 if env == "CartPole-v1" else 3
    fixed = [str(i) for i in range(2, n_features)]
    learner = robust_learner(env, {"fixed_features": fixed, "steps": steps})
    (term,) = learner.terms
    inputs = inputs_of(learner, 6)
    result = term(inputs, (1.0, 0.5), term.draw(6))
    result.loss.sum().backward()  # type: ignore[no-untyped-call]
    found = learner.flat.gradient.clone()
    learner.flat.gradient.zero_()
    line = torch.linspace(-0.5, 0.5, 41)
    grid = torch.zeros(41 * 41, n_features)
    grid[:, :2] = torch.cartesian_prod(line, line)
    best = []
    for row in range(6):
        seen = inputs.batch.observation["obs"][row] + grid
        clean = learner.family.bind(inputs.parameters[row].detach().expand(len(grid), -1))
        best.append(clean.kl(learner.family.bind(learner.policy.action_parameters({"obs": seen}))).max())
        best[-1].backward()  # type: ignore[no-untyped-call]
    assert min(best) > 1e-3
    torch.testing.assert_close(result.loss, torch.stack(best), rtol=1e-3, atol=0.0)
    torch.testing.assert_close(found, learner.flat.gradient, rtol=1e-3, atol=1e-4)


def test_as_many_steps_as_there_are_reach_every_corner() -> None:
    """A linear policy has its largest divergence in two opposite corners."""
    slope = torch.linspace(-1.0, 1.0, 8)
    direction = {"obs": 2.0 * torch.rand(100, 8, generator=torch.Generator().manual_seed(0)) - 1.0}
    for steps in (1, 2, 5):
        found = projected_ascent(
            lambda x: (x["obs"] @ slope).square(), direction, 0.2, steps, {"obs": torch.ones(8)}
        ).perturbation["obs"]
        assert (found @ slope).abs().tolist() == pytest.approx([0.2 * float(slope.abs().sum())] * 100)


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
    # Four steps of 0.0625 from 0, whatever the start at which the first gradient is taken.
    assert found.perturbation["obs"].tolist() == [pytest.approx([0.25, 0.0, -0.25])] * 2
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


def test_epsilon_may_rise_over_all_of_training() -> None:
    learner = robust_learner(robust={"ramp": 1.0, "epsilon": 0.4})
    found = [record.update.values["train/robust_epsilon"] for record in iterate(learner, 4)]
    assert found == pytest.approx([0.0, 0.1, 0.2, 0.3])


@pytest.mark.parametrize("given", [2, [2], ("2",), ["obs:2"]])
def test_a_feature_is_named_by_its_index_as_a_number_or_in_words(given: Any) -> None:
    learner = robust_learner(robust={"fixed_features": given})
    (term,) = learner.terms
    assert [x.tolist() for x in term.tensors()] == [[1.0, 1.0, 0.0, 1.0]]


def test_features_are_named_as_the_env_names_its_columns(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "normalize_observations": True}
    robust: dict[str, Any] = {"kind": "sa_ppo", "fixed_features": ["time", "pnl", "0"]}
    agent = PPO("surefoot/Hedging-v0", **settings, robust=robust)
    assert agent.config.robust.fixed_features == ("obs:1", "obs:3", "obs:0")
    again = PPO.load(agent.save(tmp_path / "agent"))  # which has no env to ask
    assert [x.tolist() for x in again.learner.terms[0].tensors()] == [[0.0, 0.0, 1.0, 0.0]]
    with pytest.raises(ConfigError, match=r"no float feature 'tine' .*time.*did you mean 'time'"):
        PPO("surefoot/Hedging-v0", **settings, robust=robust | {"fixed_features": ["tine"]})
    market = Market(load_prices("sp500"), num_envs=2, window=2, features=("return(1)", "volatility(4)"))
    trained = PPO(market, **settings | {"n_envs": 2}, robust=robust | {"fixed_features": ["return(1)", "time_left"]})
    named = [market.observation_columns[int(x.removeprefix("obs:"))] for x in trained.config.robust.fixed_features]
    assert named == ["return(1)[-1]", "return(1)[-0]", "time_left"]


def test_a_leaf_may_have_a_colon_in_its_name() -> None:
    sizes = {"a:0": 2, "b": 3}
    assert entries_of("a:0", sizes) == ("a:0", [0, 1])
    assert entries_of("a:0:1", sizes) == ("a:0", [1])
    assert entries_of("b:2", sizes) == ("b", [2])


def test_pieces_of_a_minibatch_begin_their_searches_where_the_whole_would() -> None:
    """O01, with several leaves."""

    def env() -> Random:
        return Random(spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Box(-1, 1, (3,))}))

    found = []
    for size in (None, 5):
        learner = make_learner(env, robust=SA | {"units": "raw", "steps": 1}, micro_batch_size=size)
        shake(learner, 0.5)
        iterate(learner, 2)
        found.append(values_of(learner))
    assert torch.allclose(found[0], found[1], atol=1e-5)


@pytest.mark.parametrize("section", ["robust", "imitation"])
def test_a_schedule_of_zeros_is_off(section: str) -> None:
    options: dict[str, dict[str, Any]] = {"robust": {"kind": "sa_ppo", "units": "raw"}, "imitation": {"beta": 0.5}}
    with pytest.raises(ConfigError, match=rf"{section}\.coef"):
        from_flat(**{section: options[section] | {"coef": "linear(0, 0)"}})


class Columns(Random):
    """Three numbers with names."""

    observation_columns = ("a", "b", "c")


class Turned(gymnasium.ObservationWrapper[Any, Any, Any]):
    """The same numbers in another order."""

    def observation(self, observation: Any) -> Any:
        return observation[::-1].copy()


class Named(Turned):
    observation_columns = ("c", "b", "a")


class Broken(Random):
    @property
    def observation_columns(self) -> tuple[str, ...]:
        raise RuntimeError("no data yet")


def test_names_are_those_of_what_the_policy_sees() -> None:
    settings: dict[str, Any] = {"n_envs": 1, "n_steps": 16, "batch_size": 16, "normalize_observations": True}
    robust = {"kind": "sa_ppo", "fixed_features": ["a"]}
    found = [
        PPO(env, **settings, robust=robust).config.robust.fixed_features
        for env in (Columns, lambda: gymnasium.wrappers.TimeLimit(Columns(), 5), lambda: Named(Columns()))
    ]
    assert found == [("obs:0",), ("obs:0",), ("obs:2",)]
    with pytest.raises(ConfigError, match=r"no float feature 'a'.*give the index"):
        PPO(lambda: Turned(Columns()), **settings, robust=robust)
    PPO(Broken, **settings).close()
    with pytest.raises(EnvError, match=r"Broken\.observation_columns raised RuntimeError: no data yet"):
        PPO(Broken, **settings, robust=robust)


def test_names_are_known_where_an_env_is_given_at_load(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"n_envs": 1, "n_steps": 16, "batch_size": 16, "normalize_observations": True}
    agent = PPO(Columns, **settings, robust={"kind": "sa_ppo"})
    agent.save(tmp_path / "agent")
    loaded = PPO.load(tmp_path / "agent", env=Columns, robust={"fixed_features": ["b"]})
    assert loaded.config.robust.fixed_features == ("obs:1",)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_sequence_takes_one_side_as_a_whole(kind: str) -> None:
    """A step's divergence depends on the perturbations before it: a mixture of two sides may be worse than both."""
    settings: dict[str, Any] = {"memory": {"kind": kind, "hidden_size": 8}, "policy": {"hidden_sizes": (8,)}}
    learner = robust_learner("Pendulum-v1", {"epsilon": 0.3, "steps": 5}, n_steps=32, batch_size=64, **settings)
    rollout = learner.collect()
    rows = flatten(rollout, estimates_of(learner, rollout), torch.device("cpu"), None)
    batches = SequenceBatches(rows, rollout, learner.config, lambda usual, longest: ())
    batch = next(batches.epoch(torch.Generator().manual_seed(0)))
    assert batch.sequences is not None
    n = len(batch.weight)
    group = batch.sequences.sequence_of(n)
    assert group.bincount().tolist() == [x for x in batch.sequences.length.tolist() if x]
    seen = batch.observation["obs"]
    clean = learner.family.bind(learner.policy.parameters_at({"obs": seen}, batch.sequences).detach())

    def objective(perturbation: dict[str, Tensor]) -> Tensor:
        moved = learner.policy.parameters_at({"obs": seen + perturbation["obs"]}, batch.sequences)
        return clean.kl(learner.family.bind(moved)) * batch.weight

    start = {"obs": 2.0 * torch.rand(seen.shape, generator=torch.Generator().manual_seed(1)) - 1.0}
    attackable = {"obs": torch.ones(3)}

    def sums(perturbation: dict[str, Tensor]) -> Tensor:
        return torch.zeros(n + 1).index_add(0, group, objective(perturbation).detach())

    one = projected_ascent(objective, start, 0.3, 5, attackable).perturbation
    other = projected_ascent(objective, {"obs": -start["obs"]}, 0.3, 5, attackable).perturbation
    found = ascent_on_both_sides(objective, start, 0.3, 5, attackable, group=group).perturbation
    assert torch.allclose(sums(found), torch.maximum(sums(one), sums(other)), atol=1e-6)
