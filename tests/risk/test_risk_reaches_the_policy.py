"""Risk acts on the advantages: it moves the actor and leaves the critic alone (R02)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from algo.building import by_part, gradient_of, iterate, make_learner, values_of
from surefoot.algo.batch import flatten
from surefoot.algo.estimate import Estimates, estimate, predict, steps_of
from surefoot.algo.learner import Learner
from surefoot.errors import EnvError, NonFiniteError, RiskError, SurefootWarning
from surefoot.risk.shortfall import quietly
from surefoot.train.ppo import PPO

Info = dict[str, Any]
ACTOR, CRITIC = ("encoder", "output"), ("value_encoder", "critic")
TERMS: dict[str, dict[str, Any]] = {
    "objective": {"kind": "cvar_objective", "alpha": 0.4, "cvar_weight": 1.0},
    "constraint": {"kind": "cvar_constraint", "alpha": 0.4, "limit_per_episode": 0.9},
}


class Harm(gymnasium.Env[Any, Any]):
    """Pays 1 whatever one does, for four steps; action 1 costs ``harm``."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, harm: float = 1.0, key: str = "cost") -> None:
        self._harm, self._key, self._steps = harm, key, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self._steps += 1
        return np.zeros(1, np.float32), 1.0, self._steps == 4, False, {self._key: self._harm * float(action)}


def arm(**settings: Any) -> Learner:
    return make_learner("surefoot/SafeOrRisky-v0", **{"n_envs": 8, "n_steps": 32, "batch_size": 256} | settings)


def estimates_of(learner: Learner) -> tuple[Estimates, dict[str, Tensor]]:
    """What the first rollout gives the update, and the gradient by part."""
    rollout = learner.collect()
    learner._observe(rollout, 1.0)
    estimates = learner._set_first_unit(rollout, learner._estimate(rollout))
    rows = flatten(rollout, estimates, learner.device)
    rows = rows.rows(torch.arange(len(rows.weight)))  # ordinary tensors
    return estimates, by_part(learner, gradient_of(learner, rows))


@pytest.mark.parametrize("risk", TERMS.values(), ids=TERMS.keys())
@pytest.mark.parametrize("critic", ["scalar", "quantile", "categorical"])
def test_the_actor_gets_another_gradient_and_the_critic_the_same(risk: dict[str, Any], critic: str) -> None:
    neutral, plain = estimates_of(arm(critic={"kind": critic}))
    averse, adjusted = estimates_of(arm(critic={"kind": critic}, risk=risk))
    for part in ACTOR:
        assert not torch.equal(plain[part], adjusted[part])
    torch.testing.assert_close(plain["critic"], adjusted["critic"], rtol=1e-5, atol=1e-7)
    assert bool(plain["critic"].any())
    assert bool(adjusted["shortfall_critic"].any())
    assert torch.equal(neutral.returns, averse.returns)
    assert torch.equal(neutral.values, averse.values)


def test_the_advantage_of_the_tail_is_against_the_gamble_and_that_of_the_mean_is_for_it() -> None:
    learner = arm(risk=TERMS["objective"])
    rollout = learner.collect()
    risky = rollout.action.reshape(rollout.reward.shape).bool()
    assert learner.risk is not None
    learner.risk.observe(steps_of(rollout), 0.0)
    predictions, critic = predict(rollout, learner.policy), learner.policy.critic
    for risk, sign in ((None, 1.0), (learner.risk, -1.0)):
        advantages = estimate(rollout, rollout.reward, predictions, critic, learner.config.ppo, risk).raw_advantages
        assert sign * float(advantages[risky].mean() - advantages[~risky].mean()) > 0.5


@pytest.mark.parametrize("mode", ["rollout", "minibatch", "env", "none"])
def test_normalization_keeps_the_weight_of_risk_against_return(mode: str) -> None:
    """The terms are joined first: with a huge multiplier the normalized advantages are those of the tail alone."""
    limit = {"kind": "cvar_constraint", "alpha": 0.4, "limit_per_episode": 0.9, "multiplier_init": 1e9}
    alone, _ = estimates_of(arm(risk=TERMS["objective"], normalize_advantage=mode))
    ruled, _ = estimates_of(arm(risk=limit, normalize_advantage=mode))
    torch.testing.assert_close(ruled.advantages, alone.advantages, rtol=1e-4, atol=1e-4)


def test_normalized_rewards_scale_both_terms_alike() -> None:
    """The tail's advantage is in the unit of the critic's rewards, and so are the targets."""
    raw, _ = estimates_of(arm(risk=TERMS["objective"], normalize_advantage=False))
    learner = arm(risk=TERMS["objective"], normalize_advantage=False, normalize_rewards=True)
    scaled, _ = estimates_of(learner)
    assert learner.rewards is not None
    torch.testing.assert_close(scaled.raw_advantages * learner.rewards.scale, raw.raw_advantages)
    torch.testing.assert_close(scaled.returns * learner.rewards.scale, raw.returns)


def test_without_a_risk_term_equal_rewards_leave_the_actor_where_it_is_and_with_one_they_do_not() -> None:
    """With γ = 0 each advantage is 1 − V of the one observation: no spread, hence no policy gradient (A04)."""

    def moved(**settings: Any) -> dict[str, Tensor]:
        learner = make_learner(Harm, **{"n_steps": 32, "batch_size": 128, "gae_lambda": 1.0} | settings)
        before = values_of(learner)
        iterate(learner, 3)
        return by_part(learner, values_of(learner) - before)

    still = moved(gamma=0.0)
    assert not any(bool(still[part].any()) for part in ACTOR)
    adjusted = moved(gamma=0.0, risk={"kind": "cost_constraint", "limit_per_episode": 0.5})
    assert all(bool(adjusted[part].any()) for part in (*ACTOR, *CRITIC, "cost_critic"))


def test_harm_becomes_rare_although_rewards_say_nothing() -> None:
    learner = make_learner(
        Harm, n_steps=32, batch_size=128, learning_rate=0.01, risk={"kind": "cost_constraint", "limit_per_episode": 0.2}
    )
    records = iterate(learner, 15)
    assert records[0].metrics["risk/cost"] > 1.0
    assert records[-1].metrics["risk/cost"] < 0.3
    assert records[-1].metrics["risk/cost_explained_variance"] <= 1.0


def test_a_shared_trunk_serves_the_cost_critic_too() -> None:
    limit = {"kind": "cost_constraint", "limit_per_episode": 0.2}
    learner = make_learner(Harm, policy={"hidden_sizes": (8,), "shared": True}, risk=limit)
    assert set(learner.flat.slices) == {"encoder", "output", "critic", "cost_critic"}
    iterate(learner, 2)


def test_a_missing_cost_is_named() -> None:
    limit = {"kind": "cost_constraint", "limit_per_episode": 1.0, "cost_key": "damage"}
    learner = make_learner("CartPole-v1", risk=limit)
    with pytest.raises(EnvError, match=r"info\['damage'\]"):
        iterate(learner, 1)
    iterate(make_learner(lambda: Harm(key="damage"), risk=limit), 1)


def test_a_cost_that_is_not_finite_is_refused_with_its_place() -> None:
    learner = make_learner(lambda: Harm(np.inf), risk={"kind": "cost_constraint", "limit_per_episode": 1.0})
    with pytest.raises(NonFiniteError, match=r"info\['cost'\] of env \d at step \d+"):
        iterate(learner, 1)


@pytest.mark.parametrize("kind", ["quantile", "categorical"])
def test_a_distributional_critic_is_compared_with_the_episodes(kind: str) -> None:
    learner = arm(critic={"kind": kind}, risk=TERMS["constraint"], gamma=1.0)
    metrics = iterate(learner, 2)[-1].metrics
    gap = metrics["risk/cvar_predicted"] - metrics["risk/cvar_discounted"]
    assert metrics["risk/cvar_gap"] == pytest.approx(gap)
    assert metrics["risk/cvar_discounted"] == metrics["risk/cvar"]  # γ = 1
    assert "risk/cvar_gap" not in iterate(arm(risk=TERMS["constraint"]), 1)[0].metrics


def test_the_critics_tail_is_compared_in_raw_rewards() -> None:
    """With rewards normalized the critic predicts in other units; what is logged is not."""
    gaps = {}
    for scaled in (False, True):
        learner = arm(
            critic={"kind": "quantile"},
            risk=TERMS["constraint"],
            normalize_rewards=scaled,
            learning_rate=0.01,
            n_epochs=20,
            batch_size=64,
        )
        gaps[scaled] = iterate(learner, 12)[-1].metrics
    for metrics in gaps.values():
        assert metrics["risk/cvar_predicted"] == pytest.approx(metrics["risk/cvar_discounted"], abs=1.5)


@pytest.mark.parametrize("kind", ["quantile", "categorical"])
def test_a_predicted_tail_is_read_in_the_unit_in_which_it_was_predicted(kind: str) -> None:
    """The critic's unit moves after the update; what it predicted before is in the old one."""
    learner = arm(risk=TERMS["constraint"], critic={"kind": kind, "popart": True})
    iterate(learner, 1, total=2)
    rollout, critic = learner.collect(), learner.policy.critic
    here = predict(rollout, learner.policy).here[rollout.start & rollout.valid]
    with quietly():
        expected = float(critic.mixture_risk(here, 0.4))
    assert learner.learn(rollout, 2).metrics["risk/cvar_predicted"] == pytest.approx(expected)


def test_too_few_quantiles_for_alpha_are_said_once() -> None:
    critic = {"kind": "quantile", "n_quantiles": 8}
    with pytest.warns(SurefootWarning, match=r"risk.alpha = 0.1 of critic.n_quantiles = 8"):
        learner = arm(critic=critic, risk={"kind": "cvar_objective", "alpha": 0.1})
    iterate(learner, 2)


@pytest.mark.parametrize(
    "settings",
    [
        {"risk": TERMS["constraint"]},
        {"risk": TERMS["constraint"] | {"observe_return": True}},
        {"risk": {"kind": "cvar_constraint", "alpha": 0.4, "limit_discounted": 0.9}},
        {"risk": {"kind": "cvar_constraint", "alpha": 0.4, "limit_per_step": 0.3}},
        {"risk": TERMS["objective"], "critic": {"kind": "quantile", "twin": "heads"}},
        {"risk": {"kind": "cost_constraint", "limit_per_episode": 0.3}, "critic": {"kind": "quantile", "popart": True}},
    ],
    ids=["constraint", "shown", "discounted", "step", "objective", "cost"],
)
def test_a_continued_run_equals_an_uninterrupted_one(settings: dict[str, Any]) -> None:
    """n_steps = 6 cuts the episodes of four steps, so that open ones are part of the state."""
    world = "surefoot/CostlyArm-v0"
    whole, first, second = (make_learner(world, n_steps=6, batch_size=24, **settings) for _ in range(3))
    expected = iterate(whole, 5, total=5)
    iterate(first, 3, total=5)
    second.load_state_dict(first.state_dict())
    found = iterate(second, 2, total=5)
    assert torch.equal(values_of(second), values_of(whole))
    assert [record.metrics for record in found] == [record.metrics for record in expected[3:]]


def test_an_alpha_without_one_episode_in_the_tail_of_the_whole_training_is_refused() -> None:
    limit = {"kind": "cvar_constraint", "alpha": 1e-4, "limit_per_episode": 0.0}
    with pytest.raises(RiskError, match=r"alpha = 0\.0001 of the episodes of 512 env steps"):
        PPO("surefoot/SafeOrRisky-v0", n_envs=4, n_steps=32, batch_size=64, risk=limit).learn(512)


def test_what_a_risk_term_changes_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = PPO("surefoot/SafeOrRisky-v0", n_envs=64, n_steps=32, batch_size=256, risk=TERMS["constraint"])
    agent.learn(2048, run_dir=tmp_path / "run")
    said = "".join(capsys.readouterr())
    (line,) = [line for line in said.splitlines() if line.startswith("risk.kind = cvar_constraint")]
    assert "A_shortfall" in line
    assert "0.9" in line
