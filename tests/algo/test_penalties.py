"""A KL penalty beside the clip, an entropy floor, and bounds on σ do what they say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium import spaces

from algo.building import iterate, make_learner, updates
from surefoot import PPO
from surefoot.algo.entropy_floor import EntropyFloor
from surefoot.algo.kl_penalty import KLPenalty
from surefoot.config import from_flat
from surefoot.errors import ConfigError
from surefoot.math.bounded import inward_clamp
from surefoot.math.kl import k3
from train.agents import Random


def test_the_mean_gradient_of_the_estimate_is_that_of_the_divergence() -> None:
    """Over all actions, each weighted by the old probability: no sampling, no noise."""
    old = torch.log_softmax(torch.tensor([0.3, -1.0, 0.5]), 0)
    logits = torch.tensor([-0.2, 0.4, 0.9], requires_grad=True)
    new = torch.log_softmax(logits, 0)
    exact = (old.exp() * (old - new)).sum()
    estimate = (old.exp() * k3(new - old)).sum()
    (wanted,) = torch.autograd.grad(exact, logits, retain_graph=True)
    (found,) = torch.autograd.grad(estimate, logits)
    assert estimate.item() == pytest.approx(exact.item(), rel=1e-5)
    assert torch.allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("estimator", ["k3", "exact"])
def test_a_penalty_keeps_the_policy_nearer(estimator: str) -> None:
    settings: dict[str, Any] = {"learning_rate": 1e-2, "n_epochs": 8, "clip_range": 10.0, "kl_estimator": estimator}
    free, held = (updates(make_learner(kl_coef=coef, **settings), 3) for coef in (0.0, 30.0))
    assert sum(r.kl_last for r in held) < 0.5 * sum(r.kl_last for r in free)
    assert [r.metrics()["train/kl_coef"] for r in held] == [30.0] * 3


def test_the_coefficient_doubles_above_and_halves_below_the_target() -> None:
    (record,) = updates(make_learner(), 1)
    term = KLPenalty(1.0, target=0.01)
    for kl, expected in ((0.0151, 2.0), (0.0149, 2.0), (0.1, 4.0), (0.0066, 2.0), (0.0, 1.0), (0.01, 1.0)):
        term.advance(replace(record, kl_last=kl))
        assert term.numbers == (expected,)
    fixed = KLPenalty(1.0)
    fixed.advance(replace(record, kl_last=9.0))
    assert fixed.numbers == (1.0,)


def test_the_coefficient_of_the_floor_grows_below_it_and_falls_above() -> None:
    (record,) = updates(make_learner(), 1)
    term = EntropyFloor(1.0)
    found = []
    for entropy in (0.9, 0.9, 0.9, 1.1, 1.1, 1.1):
        term.advance(replace(record, values=record.values | {"train/entropy": entropy}))
        found.append(term.numbers[0])
    assert found == pytest.approx([1e-3, 1.5e-3, 2.25e-3, 1.5e-3, 1e-3, 0.0])


def test_a_policy_is_brought_back_to_the_floor() -> None:
    """Zero reward and a policy that is sure of itself: without the floor nothing moves it."""
    found = []
    for floor in (None, 0.6):
        learner = make_learner(
            "surefoot/Identity-v0", entropy_floor=floor, normalize_advantage="none", learning_rate=0.02, vf_coef=0.0
        )
        learner.policy.output.linear.bias.data[0] = 4.0
        for parameter in learner.policy.critic.parameters():
            parameter.data.zero_()
        for _ in range(40):
            rollout = learner.collect()
            rollout.reward.zero_()
            record = learner.learn(rollout, 40).update
        found.append(record)
    assert found[0].entropy < 0.4
    assert found[1].entropy > 0.5
    assert found[1].metrics()["train/entropy_floor_coef"] >= 0.0


def test_a_gradient_passes_beyond_a_bound_only_where_it_leads_back() -> None:
    x = torch.tensor([-2.0, -2.0, 0.0, 2.0, 2.0], requires_grad=True)
    y = inward_clamp(x, -1.0, 1.0)
    assert y.tolist() == [-1.0, -1.0, 0.0, 1.0, 1.0]
    y.backward(torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0]))  # type: ignore[no-untyped-call]
    assert x.grad is not None
    # Descent goes against the gradient: from below −1 only a negative one leads back.
    assert x.grad.tolist() == [0.0, -1.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(("distribution", "bound"), [("gaussian", "std_max"), ("tanh_gaussian", "std_min")])
@pytest.mark.parametrize("state_dependent", [False, True])
def test_sigma_stays_within_its_bounds(distribution: str, bound: str, state_dependent: bool) -> None:
    """An entropy bonus drives σ up, or squashed actions down to about 0.87, where their entropy is largest."""
    policy = {"distribution": distribution, "state_dependent_std": state_dependent, "hidden_sizes": (8,)}
    limit, stds = {"std_max": 1.05, "std_min": 0.95}[bound], []
    for bounds in ({}, {bound: limit}):
        learner = make_learner("Pendulum-v1", ent_coef=1.0, learning_rate=0.02, policy=policy | bounds)
        iterate(learner, 10)
        normal: Any = learner.family.bind(learner.collect().parameters.flatten(0, 1))
        std = normal.base.std if distribution == "tanh_gaussian" else normal.std
        stds.append(float(std.max() if bound == "std_max" else std.min()))
    assert stds[1] == pytest.approx(limit)
    assert stds[0] > 1.1 if bound == "std_max" else stds[0] < 0.92


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"kl_coef": -1.0}, r"ppo\.kl_coef"),
        ({"kl_coef": "decay(1, 0, 3)"}, r"decay\(…\) is for ent_coef"),
        ({"adaptive_kl_coef": True, "kl_coef": 1.0}, r"adaptive_kl_coef needs ppo\.target_kl"),
        ({"adaptive_kl_coef": True, "target_kl": 0.1}, r"adaptive_kl_coef needs"),
        ({"adaptive_kl_coef": True, "target_kl": 0.1, "kl_coef": "linear(1, 0)"}, r"as a number above 0"),
        ({"entropy_floor": math.nan}, r"ppo\.entropy_floor"),
        ({"entropy_floor": 0.1, "diagnostics": False}, r"entropy_floor needs ppo\.diagnostics"),
        ({"policy": {"std_min": 0.0}}, r"policy\.std_min"),
        ({"policy": {"std_min": 2.0, "std_max": 1.0}}, r"std_min = 2 must be below policy\.std_max = 1"),
        ({"policy": {"std_min": 2.0}}, r"starts with σ = exp\(policy\.log_std_init\) = 1, which is outside"),
        ({"policy": {"std_max": 0.5}}, r"outside \[0, 0\.5\]"),
        ({"policy": {"std_max": 2.0, "distribution": "beta"}}, r"beta.*drop policy\.std_max"),
        ({"n_epochs": 1, "batch_size": 2048, "kl_coef": 1.0}, r"kl_coef cannot act"),
    ],
)
def test_settings_that_cannot_act_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        from_flat(**settings)


def test_bounds_of_sigma_are_refused_where_there_is_none() -> None:
    with pytest.raises(ConfigError, match=r"std_min, policy\.std_max bound the σ of Gaussian actions"):
        make_learner("CartPole-v1", policy={"std_max": 2.0})


DICE = {"die": spaces.Discrete(6), "sides": spaces.MultiBinary(2)}


@pytest.mark.parametrize(
    ("space", "settings", "largest"),
    [
        (spaces.Discrete(4), {}, math.log(4)),
        (spaces.MultiDiscrete([2, 3]), {}, math.log(6)),
        (spaces.MultiBinary(3), {}, 3 * math.log(2)),
        (spaces.Dict(DICE), {}, math.log(6 * 4)),
        (spaces.Box(0.0, 3.0, (2,)), {"policy": {"distribution": "beta"}}, 2 * math.log(3)),
        (spaces.Box(0.0, 3.0, (2,)), {"policy": {"distribution": "tanh_gaussian"}}, 2 * math.log(3)),
        (  # half-widths of 1.5, σ of 0.5 of them
            spaces.Box(0.0, 3.0, (2,)),
            {"policy": {"std_max": 0.5, "log_std_init": -1.0}},
            2 * (math.log(0.75) + 0.5 * math.log(2 * math.pi * math.e)),
        ),
    ],
    ids=str,
)
def test_a_floor_above_the_largest_entropy_is_refused(
    space: spaces.Space[Any], settings: dict[str, Any], largest: float
) -> None:
    def env() -> Random:
        return Random(action_space=space)

    PPO(env, n_envs=1, n_steps=16, batch_size=16, entropy_floor=largest - 1e-3, **settings).close()
    with pytest.raises(ConfigError, match=f"at most {largest:.4g} nats"):
        PPO(env, n_envs=1, n_steps=16, batch_size=16, entropy_floor=largest + 1e-3, **settings)


def test_gaussians_without_a_bound_reach_any_useful_floor() -> None:
    PPO("Pendulum-v1", n_envs=1, n_steps=16, batch_size=16, entropy_floor=10.0).close()


def test_another_coefficient_given_at_load_is_in_force(tmp_path: Path) -> None:
    """Also where the saved one has adapted; beginning schedules anew does the same with the first."""
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "compile": False}
    agent = PPO("CartPole-v1", **settings, kl_coef=1.0, adaptive_kl_coef=True, target_kl=10.0).learn(96)
    adapted = agent.learner.terms[0].numbers
    assert adapted == (0.125,)
    agent.save(tmp_path / "agent")
    assert PPO.load(tmp_path / "agent").learner.terms[0].numbers == adapted
    again = PPO.load(tmp_path / "agent", kl_coef=50.0)
    assert again.learner.terms[0].numbers == (50.0,)
    again.learn(32)
    assert again.logger_values["train/kl_coef"] == 50.0
    agent.learn(32, reset_num_timesteps=True)
    assert agent.logger_values["train/kl_coef"] == 1.0


def test_an_agent_with_a_floor_out_of_reach_still_acts(tmp_path: Path) -> None:
    """One that was saved before such floors were refused."""
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "compile": False}
    PPO("CartPole-v1", **settings, entropy_floor=0.5).save(tmp_path / "agent")
    loaded = PPO.load(tmp_path / "agent", entropy_floor=0.7)
    assert loaded.evaluate(1).returns
    with pytest.raises(ConfigError, match=r"at most 0\.6931 nats; set a lower one"):
        loaded.learn(32)
