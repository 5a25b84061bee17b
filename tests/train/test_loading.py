"""Loading onto other envs than an agent was saved with: whenever the spaces agree, saying whether exactly (Y08)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

import surefoot
from surefoot import PPO
from surefoot.errors import ConfigError, SurefootError, SurefootWarning
from surefoot.store import read_checkpoint, read_manifest
from surefoot.train.checkpoint import from_snapshot
from surefoot.vector.described import DescribedEnvs
from train.agents import ROWS, SMALL, Random, dict_space, image_space, parameters, same_training, small


def cartpole(**settings: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1", **settings)


def goes_on_exactly(agent: PPO) -> bool:
    return agent.learner.resumed is not None and agent.learner.resumed.exact


def test_an_agent_of_an_instance_is_loaded_by_its_id(tmp_path: Path) -> None:
    agent = PPO(cartpole(), **SMALL).learn(ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"))
    assert same_training(again.learn(ROWS), agent.learn(ROWS))
    assert goes_on_exactly(again)


def test_an_agent_of_an_id_goes_on_exactly_in_an_instance(tmp_path: Path) -> None:
    agent = PPO("CartPole-v1", **SMALL, n_envs=1).learn(ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"), env=cartpole())
    assert same_training(again.learn(ROWS), agent.learn(ROWS))
    assert goes_on_exactly(again)


OTHERS: dict[str, tuple[Callable[[], Any], str]] = {
    "one env": (cartpole, "it was saved with 2 envs, here are 1"),
    "other arguments": (
        lambda: cartpole(sutton_barto_reward=True),
        "here is CartPole-v1 {'sutton_barto_reward': True}",
    ),
    "a wrapper": (
        lambda: gymnasium.wrappers.TransformReward(cartpole(), lambda reward: -1.0),
        "2 envs, here are 1",
    ),
    "a vector env": (
        lambda: SyncVectorEnv([cartpole] * 2),
        "it is of single envs, these are a vector env SyncVectorEnv",
    ),
    "three by make_vec": (lambda: gymnasium.make_vec("CartPole-v1", num_envs=3), "saved with 2 envs, here are 3"),
}


@pytest.mark.parametrize(("make", "reason"), OTHERS.values(), ids=OTHERS.keys())
def test_other_envs_of_the_same_spaces_are_gone_on_in_with_new_episodes(
    tmp_path: Path, make: Callable[[], Any], reason: str
) -> None:
    agent = small(normalize_observations=True, normalize_rewards=True).learn(3 * ROWS)
    path = agent.save(tmp_path / "agent")
    env = make()
    with pytest.warns(SurefootWarning, match="goes on with new episodes: ") as said:
        again = PPO.load(path, env=env)
    assert reason in str(said[0].message)
    assert parameters(again).equal(parameters(agent))
    before = again.num_timesteps
    assert again.learn(20).num_timesteps > before
    assert again.config.n_envs == again.envs.n_envs


def test_without_an_env_it_is_said_at_the_first_training(tmp_path: Path) -> None:
    path = small(Random).learn(ROWS).save(tmp_path / "agent")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = PPO.load(path)
    assert isinstance(again.envs, DescribedEnvs)
    with pytest.raises(ConfigError, match=r"no id: load it with PPO\.load\(path, env=…\)"):
        again.learn(ROWS)


def test_more_envs_can_be_asked_for(tmp_path: Path) -> None:
    path = small().learn(ROWS).save(tmp_path / "agent")
    again = PPO.load(path, n_envs=5)
    with pytest.warns(SurefootWarning, match="it was saved with 2 envs, here are 5"):
        again.learn(80)
    assert again.envs.n_envs == 5
    assert again.num_timesteps == ROWS + 80


def test_rules_about_training_wait_for_training(tmp_path: Path) -> None:
    path = PPO("CartPole-v1", **surefoot.preset("CartPole-v1")).save(tmp_path / "agent")
    again = PPO.load(path, env=cartpole())
    again.predict(np.zeros(4, np.float32))
    with pytest.raises(ConfigError, match="batch_size = 256 exceeds the rollout"):
        again.learn(100)
    assert PPO.load(again.save(tmp_path / "again")).config.n_envs == 1
    assert PPO.load(path, env=cartpole(), batch_size=32).learn(64).num_timesteps == 64


def test_settings_may_be_others_from_now_on(tmp_path: Path) -> None:
    agent = small().learn(ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"), learning_rate=1e-5, gamma=0.5, n_epochs=1)
    assert (again.config.ppo.learning_rate, again.config.ppo.gamma) == (1e-5, 0.5)
    assert again.learn(ROWS).logger_values["train/learning_rate"] == 1e-5
    assert goes_on_exactly(again)


@pytest.mark.parametrize(
    "override",
    [
        {"policy": {"hidden_sizes": (16,)}},
        {"critic": {"kind": "quantile"}},
        {"memory": {"kind": "lstm"}},
        {"normalize_observations": True},
        {"risk": {"kind": "cvar_objective"}},
    ],
    ids=str,
)
def test_what_decides_the_networks_cannot_be_another(tmp_path: Path, override: dict[str, Any]) -> None:
    path = small().save(tmp_path / "agent")
    with pytest.raises(ConfigError, match="cannot be another when it is loaded"):
        PPO.load(path, **override)


def test_a_limit_may_be_another_number_but_not_of_another_quantity(tmp_path: Path) -> None:
    """Costs that were summed and costs that were discounted do not belong in one sample."""
    risk = {"kind": "cost_constraint", "limit_per_episode": 0.3}
    path = PPO("surefoot/CostlyArm-v0", compile=False, risk=risk).save(tmp_path / "agent")
    assert PPO.load(path, risk={"limit_per_episode": 0.5}).config.risk.limit_per_episode == 0.5
    with pytest.raises(ConfigError, match="limit_per_episode may be another number"):
        PPO.load(path, risk={"limit_per_episode": None, "limit_discounted": 0.3})


def test_a_misspelled_override_is_named(tmp_path: Path) -> None:
    path = small().save(tmp_path / "agent")
    with pytest.raises(ConfigError, match="did you mean 'learning_rate'"):
        PPO.load(path, learning_rat=1e-3)


SPACES: dict[str, tuple[spaces.Space[Any], spaces.Space[Any]]] = {
    "dict": (dict_space(), spaces.MultiDiscrete([2, 3])),
    "image": (image_space(36), spaces.MultiBinary(3)),
    "codes": (
        spaces.Tuple([spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 4], start=[1, 0]), spaces.MultiBinary(2)]),
        spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 50.0], np.float32)),
    ),
    "nested": (
        spaces.Dict(
            {"a": spaces.Dict({"b": spaces.Box(-np.inf, np.inf, (2, 2), np.float64)}), "c": spaces.Discrete(2)}
        ),
        spaces.Dict({"go": spaces.Discrete(2, start=-1), "level": spaces.Box(10.0, 30.0, (1,))}),
    ),
}


@pytest.mark.parametrize(("observation", "action"), SPACES.values(), ids=SPACES.keys())
def test_acting_needs_no_env(tmp_path: Path, observation: spaces.Space[Any], action: spaces.Space[Any]) -> None:
    agent = small(lambda: Random(observation, action)).learn(ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"))
    assert again.envs.observation_space == observation
    assert again.envs.action_space == action
    observation.seed(3)
    for _ in range(5):
        seen = observation.sample()
        mine, its = agent.predict(seen, deterministic=True)[0], again.predict(seen, deterministic=True)[0]
        assert action.contains(its)
        np.testing.assert_equal(its, mine)


def test_factored_agents_act_without_env_too(tmp_path: Path) -> None:
    agent = PPO("surefoot/Greenhouse-v0", n_envs=2, **SMALL).learn(ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"))
    seen = agent.envs.observation_space.sample()
    assert np.array_equal(agent.predict(seen, deterministic=True)[0], again.predict(seen, deterministic=True)[0])
    assert again.envs.action_heads == agent.envs.action_heads


def test_no_training_env_is_made_before_training(tmp_path: Path) -> None:
    class Counted(Random):
        made = 0

        def __init__(self) -> None:
            super().__init__()
            Counted.made += 1

    gymnasium.register("test/Counted-v0", Counted)  # type: ignore[arg-type]  # it takes no arguments
    try:
        path = small("test/Counted-v0").save(tmp_path / "agent")
        Counted.made = 0
        PPO.load(path).predict(np.zeros(3, np.float32))
        assert Counted.made == 0
    finally:
        del gymnasium.registry["test/Counted-v0"]


def test_an_agent_without_envs_can_be_saved_again_as_it_is(tmp_path: Path) -> None:
    agent = small(normalize_rewards=True).learn(ROWS)
    path = PPO.load(agent.save(tmp_path / "one")).save(tmp_path / "two")
    assert read_manifest(path).exact
    assert same_training(PPO.load(path).learn(ROWS), agent.learn(ROWS))


@pytest.mark.parametrize(
    "action", [spaces.Box(-1.0, 2.0, (1,)), spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(3)], ids=str
)
def test_bounds_of_actions_are_part_of_what_must_agree(tmp_path: Path, action: spaces.Space[Any]) -> None:
    path = small(lambda: Random(action_space=spaces.Box(-1.0, 1.0, (1,)))).save(tmp_path / "agent")
    with pytest.raises(SurefootError, match="the agent's action space is Box"):
        PPO.load(path, env=lambda: Random(action_space=action))


@pytest.mark.parametrize("where", ["rollout", "update"])
def test_an_agent_saved_in_the_middle_of_an_iteration_says_that_it_is_not_exact(tmp_path: Path, where: str) -> None:
    agent = small(normalize_observations=True).learn(2 * ROWS)
    countdown = 5 if where == "rollout" else 16 + 2

    def interrupt() -> bool:
        nonlocal countdown
        countdown -= 1
        if countdown == 0:
            raise KeyboardInterrupt
        return False

    agent.learner.interrupted = interrupt
    with pytest.raises(KeyboardInterrupt):
        agent.learn(ROWS)
    path = agent.save(tmp_path / "agent")
    assert not read_manifest(path).exact
    again = PPO.load(path)
    if where == "rollout":  # an env may be a step ahead of its observation
        with pytest.warns(SurefootWarning, match="new episodes"):
            again.learn(ROWS)
    else:
        again.learn(ROWS)
    agent.learner.interrupted = lambda: False
    assert parameters(agent.learn(ROWS)).isfinite().all()


def test_evaluating_on_the_training_env_does_not_disturb_training() -> None:
    env, other = cartpole(), cartpole()
    disturbed, quiet = PPO(env, **SMALL).learn(ROWS), PPO(other, **SMALL).learn(ROWS)
    found = disturbed.evaluate(3, seed=5, env=env)
    assert found == quiet.evaluate(3, seed=5)
    assert same_training(disturbed.learn(ROWS), quiet.learn(ROWS))


def test_evaluating_on_the_training_vector_env_does_not_disturb_training() -> None:
    def make() -> SyncVectorEnv:
        return gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")  # type: ignore[return-value]

    env = make()
    disturbed, quiet = PPO(env, **SMALL).learn(ROWS), PPO(make(), **SMALL).learn(ROWS)
    disturbed.evaluate(3, seed=5, env=env)
    disturbed.evaluate(3, seed=5, env=env.envs[0])
    assert same_training(disturbed.learn(ROWS), quiet.learn(ROWS))


@pytest.mark.parametrize("settings", [{}, {"optimizer": "upgd"}])
def test_an_agent_of_another_kind_of_device_is_loaded_with_streams_of_its_own(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """The state of a generator on CUDA is 16 bytes, a seed and an offset, and that of the host some thousand."""
    agent = small(**settings).learn(ROWS)
    saved = from_snapshot(*read_checkpoint(agent.save(tmp_path / "agent")))
    streams = [name for name in ("generator/act", "optimizer/noise_generator") if name in saved.state.tensors]
    there = {name: torch.arange(16, dtype=torch.uint8) + i for i, name in enumerate(streams)}
    state = replace(saved.state, tensors=saved.state.tensors | there)
    elsewhere = saved._replace(state=state, config=saved.config.model_copy(update={"device": "cuda"}))
    twins = [PPO.restore(elsewhere, overrides={"device": "cpu"}).learn(ROWS) for _ in range(2)]
    assert same_training(*twins)
    assert not same_training(twins[0], agent.learn(ROWS))
    with pytest.raises(ConfigError, match=r"the saved .*generator.* is torch\.uint8 of shape \(16,\)"):
        PPO.restore(saved._replace(state=state))
