"""Evaluation under attack: observations are changed as far as is said and no further, and stronger attacks hurt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from surefoot import PPO
from surefoot.cli.main import main
from surefoot.errors import ConfigError
from surefoot.rollout.actor import Acted
from surefoot.rollout.attack import ATTACKS, Attack, AttackedActor
from surefoot.spaces import CONTEXT_LEAF
from surefoot.train.attacked import evaluate_attacked

SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "compile": False}


class Follow(gymnasium.Env[Any, Any]):
    """Each step shows two numbers in [−1, 1]; minus the squared distance of the action from their mean is the reward.
    Changes of both to the same side hurt most."""

    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = -float((action[0] - self._target) ** 2)
        self._steps += 1
        return self._show(), reward, self._steps == 8, False, {}

    def _show(self) -> Any:
        shown = self.np_random.uniform(-1.0, 1.0, 2)
        self._target = shown.mean()
        return shown.astype(np.float32)


@pytest.fixture(scope="module")
def follower() -> PPO:
    """An agent that has learned to follow."""
    settings: dict[str, Any] = {"n_envs": 8, "n_steps": 64, "compile": False, "normalize_observations": True}
    return PPO(Follow, learning_rate=3e-3, **settings).learn(8192)


def watched(agent: PPO, attack: Attack, epsilon: float, fixed: tuple[str, ...] = ()) -> np.ndarray[Any, Any]:
    """How far the policy's observations are moved, [steps, features], in the units that it sees."""
    actor, moved = agent.learner.actor, []

    class Watch:
        """What the attacked actor calls in place of the real one."""

        policy, family, normalizer, device = actor.policy, actor.family, actor.normalizer, actor.device
        seen, masks, context = actor.seen, actor.masks, actor.context
        clean: Any = None

        def __call__(self, observation: Any, *rest: Any, **named: Any) -> Acted:
            moved.append(actor.seen(observation)["obs"] - self.clean)
            return actor(observation, *rest, **named)

    watch: Any = Watch()
    from surefoot.rollout.features import attackable_features
    from surefoot.spaces import Layout

    attackable = attackable_features(Layout.of(agent.envs.observation_space), fixed)
    attacker = AttackedActor(watch, attack, epsilon, attackable)
    for i in range(5):
        observation = {"obs": np.random.default_rng(i).uniform(-1, 1, (4, 2)).astype(np.float32)}
        watch.clean = actor.seen(observation)["obs"]
        attacker(observation, None, None, None, torch.Generator(), True)
    return np.concatenate(moved)


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_feature_is_moved_further_than_epsilon(follower: PPO, attack: Attack) -> None:
    moved = watched(follower, attack, 0.3)
    assert np.abs(moved).max() <= 0.3 + 1e-4
    assert np.abs(moved).max() > 0.25
    fixed = watched(follower, attack, 0.3, ("obs:1",))
    assert np.abs(fixed[:, 1]).max() < 1e-6
    assert np.abs(fixed[:, 0]).max() > 0.25


def test_attacks_lower_the_return_and_searching_ones_more(follower: PPO) -> None:
    found = {kind: result.mean for kind, result in evaluate_attacked(follower, ATTACKS, 0.5, 40).items()}
    assert found["clean"] == follower.evaluate(40).mean
    assert found["clean"] > found["random"] > found["pgd"]
    assert found["fgsm"] < found["clean"]


def test_pgd_finds_the_worst_observation_on_either_side(follower: PPO) -> None:
    """Against a grid of 41 x 41 points around each of 64 observations, by the actions that the env receives: the lesser
    of two maxima would not do."""
    actor, epsilon = follower.learner.actor, 0.5
    observation = {"obs": np.random.default_rng(0).uniform(-1, 1, (64, 2)).astype(np.float32)}
    clean = torch.from_numpy(actor.seen(observation)["obs"])

    def divergence(moved: Tensor) -> Tensor:
        with torch.no_grad():
            family, policy = actor.family, actor.policy
            before, after = (policy.action_parameters({"obs": x}).clone() for x in (clean, clean + moved))
            for parameters in (before, after):
                parameters[:, 0].clamp_(-1.0, 1.0)  # the mean action, as the env clips it
            return family.bind(before).kl(family.bind(after))

    line = torch.linspace(-epsilon, epsilon, 41)
    best = torch.stack([divergence(torch.stack([a, b])) for a in line for b in line]).amax(0)
    attackable = {"obs": torch.ones(2)}
    changed = AttackedActor(actor, "pgd", epsilon, attackable)._changed(observation, None, None, None, None)
    found = divergence(torch.from_numpy(actor.seen(changed)["obs"]) - clean)
    assert best.min() > 0.1
    assert (found >= 0.8 * best).all()


def test_an_attack_of_size_0_changes_nothing(follower: PPO) -> None:
    found = evaluate_attacked(follower, ("random", "fgsm", "pgd", "critic"), 0.0, 3)
    assert len({result.returns for result in found.values()}) == 1


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {"memory": {"kind": "lstm", "hidden_size": 8}}),
        ("surefoot/Greenhouse-v0", {"critic": {"kind": "quantile", "twin": "heads"}}),
        ("Pendulum-v1", {"policy": {"distribution": "beta"}}),
    ],
)
def test_every_policy_can_be_attacked_and_acts_as_before_after_it(env: str, settings: dict[str, Any]) -> None:
    agent = PPO(env, **SMALL, **settings).learn(32)
    before, actor = agent.evaluate(2).returns, agent.learner.actor
    found = evaluate_attacked(agent, ATTACKS, 0.2, 2)
    assert set(found) == {"clean", *ATTACKS}
    assert agent.learner.actor is actor
    assert agent.evaluate(2).returns == before == found["clean"].returns


@pytest.mark.filterwarnings("ignore:an update rests on about")
def test_an_attack_sees_the_return_so_far_that_the_policy_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it would look for the weakness of a policy in another situation."""
    risk = {"kind": "cvar_objective", "alpha": 0.5, "observe_return": True}
    agent = PPO(Follow, **SMALL, risk=risk).learn(64)
    policy, seen = agent.learner.policy, []
    step = policy.step

    def watched_step(rows: Any, state: Any) -> Any:
        seen.append(rows[CONTEXT_LEAF])
        return step(rows, state)

    monkeypatch.setattr(policy, "step", watched_step)
    evaluate_attacked(agent, ("pgd",), 0.2, 2)
    assert len(set(torch.stack(seen).flatten().tolist())) > 4


def test_bad_attacks_are_refused() -> None:
    agent = PPO("CartPole-v1", **SMALL)
    for attacks, epsilon, told in (
        (("pgdd",), 0.1, "unknown attack 'pgdd'"),
        (("pgd",), -0.1, "epsilon must be a number from 0"),
        (("pgd",), 1e39, "epsilon must be a number from 0"),
        (("pgd",), float("nan"), "epsilon must be"),
    ):
        with pytest.raises(ConfigError, match=told):
            evaluate_attacked(agent, attacks, epsilon, 1)  # type: ignore[arg-type]


def test_the_command_line_prints_returns_beside_the_clean_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    PPO("CartPole-v1", **SMALL).learn(32, run_dir=tmp_path / "run")
    words = ["eval", str(tmp_path / "run"), "--episodes", "2"]
    main([*words, "--attack", "random", "pgd", "--epsilon", "0.1", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert set(said["attacks"]) == {"clean", "random", "pgd"}
    assert said["epsilon"] == 0.1
    assert (said["units"], said["fixed_features"]) == ("raw", [])
    assert len(said["attacks"]["pgd"]["returns"]) == 2
    main([*words, "--attack", "critic", "--epsilon", "0.1"])
    assert "critic" in capsys.readouterr().out
    for wrong in (["--attack", "pgd"], ["--epsilon", "0.1"]):
        with pytest.raises(SystemExit):
            main([*words, *wrong])


def test_the_command_line_says_what_is_attacked_in_which_units(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    robust = {"kind": "sa_ppo", "fixed_features": ["0", 1]}
    PPO("CartPole-v1", **SMALL, normalize_observations=True, robust=robust).learn(32, run_dir=tmp_path / "run")
    words = ["eval", str(tmp_path / "run"), "--episodes", "1", "--attack", "random", "--epsilon", "0.1"]
    for options, expected in (([], ["0", "1"]), (["--fixed-features", "obs:2"], ["obs:2"]), (["--fixed-features"], [])):
        main([*words, *options, "--json"])
        said = json.loads(capsys.readouterr().out)
        assert (said["units"], said["fixed_features"]) == ("normalized", expected)
    main(words)
    assert "standard deviations" in capsys.readouterr().out
    for wrong in (["--fixed-features", "obz:2"], ["--fixed-features", "7"]):
        with pytest.raises(SystemExit):
            main([*words, *wrong])
    with pytest.raises(SystemExit):
        main([*words[:2], "--fixed-features", "0"])


def test_pgd_sees_the_clipping_of_a_box_among_other_actions() -> None:
    """At the upper bound of the box, a push further up changes nothing."""

    class Two(Follow):
        action_space: Any = spaces.Dict({"to": Follow.action_space, "stop": spaces.Discrete(2)})

    agent = PPO(Two, **SMALL, policy={"hidden_sizes": ()})
    family = agent.learner.family
    layer: Any = agent.learner.policy.output.linear
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))  # two logits, and the mean of the box
        layer.bias.zero_()
    observation = {"obs": np.full((20, 2), 0.5, np.float32)}  # the mean action is 1
    attacker = AttackedActor(agent.learner.actor, "pgd", 0.25, {"obs": torch.ones(2)})
    actions, _ = attacker(observation, None, None, None, torch.Generator(), True)
    assert family.head_names == ("stop", "to")
    assert actions["to"] == pytest.approx(np.full((20, 1), 0.5), abs=1e-5)


def test_a_feature_that_never_varied_is_left_alone() -> None:
    """It has no standard deviation that ε could count."""

    class Constant(Follow):
        def _show(self) -> Any:
            shown = super()._show()
            shown[1] = 1.0
            return shown

    agent = PPO(Constant, **SMALL, normalize_observations=True, robust={"kind": "sa_ppo", "epsilon": 0.5}).learn(64)
    attacker = AttackedActor(agent.learner.actor, "random", 0.3, {"obs": torch.ones(2)})
    observation = {"obs": np.array([[0.3, 1.0]], np.float32)}
    changed = attacker._changed(observation, None, None, None, None)["obs"] - observation["obs"]
    assert changed[0, 0] != 0.0
    assert changed[0, 1] == 0.0
    (term,) = agent.learner.terms
    assert [x.tolist() for x in term.tensors()] == [[1.0, 0.0]]


def test_the_clean_return_is_that_of_eval_in_the_same_env(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    PPO("Pendulum-v1", **SMALL, run={"eval_every": 32, "eval_env_kwargs": {"g": 1.0}}).learn(64, run_dir=run)
    capsys.readouterr()

    def clean(*options: str) -> tuple[float, float]:
        common = ["eval", str(run), "--episodes", "2", "--json", *options]
        main(common)
        plain = json.loads(capsys.readouterr().out)["mean_reward"]
        main([*common, "--attack", "random", "--epsilon", "0.1"])
        return plain, json.loads(capsys.readouterr().out)["attacks"]["clean"]["mean_reward"]

    for options in ((), ("--env-kwargs", '{"g": 20.0}')):
        plain, attacked = clean(*options)
        assert plain == attacked
    with pytest.raises((SystemExit, ConfigError)):
        main(["eval", str(run), "--env", "NoSuchEnv-v9", "--attack", "pgd", "--epsilon", "0.1"])


def test_an_agent_that_has_seen_nothing_is_not_called_robust() -> None:
    agent = PPO("CartPole-v1", **SMALL, normalize_observations=True)
    with pytest.raises(ConfigError, match="no feature has varied so far"):
        evaluate_attacked(agent, ("pgd",), 1.0, 1)


def test_features_of_an_attack_are_named_as_those_of_training(tmp_path: Path) -> None:
    robust = {"kind": "sa_ppo", "fixed_features": ["time"]}
    agent = PPO("surefoot/Hedging-v0", **SMALL, normalize_observations=True, robust=robust).learn(64)
    again = PPO.load(agent.save(tmp_path / "agent"))
    by_name, by_index = (
        evaluate_attacked(again, ("random",), 0.5, 2, fixed_features=fixed)["random"].returns
        for fixed in (["time", "pnl"], ["1", "3"])
    )
    assert by_name == by_index
    with pytest.raises(ConfigError, match="did you mean 'time'"):
        evaluate_attacked(again, ("random",), 0.5, 2, fixed_features=["tine"])
