"""Saved agents: everything comes back, learning goes on as if never interrupted, mistakes are explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from surefoot import PPO
from surefoot.errors import CheckpointError, ConfigError, SurefootError, SurefootWarning
from surefoot.store import read_manifest
from surefoot.worlds import Identity
from train.agents import ROWS, SMALL, Random, parameters, same_training, small

VARIED: dict[str, dict[str, Any]] = {
    "plain": {},
    "normalizers": {"normalize_observations": True, "normalize_rewards": True},
    "adaptive rate": {"adaptive_lr_kl": 0.01},
    "entropy decay": {"ent_coef": "decay(0.1, 0.01, 5, 2, 0.0)"},
    "value clip": {"clip_range_vf": 0.2, "normalize_advantage": "minibatch"},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1},
    "rest of a rollout": {"n_steps": 24, "batch_size": 24},
}


@pytest.mark.parametrize("settings", VARIED.values(), ids=VARIED.keys())
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_learning_goes_on_as_if_never_interrupted(tmp_path: Path, env: str, settings: dict[str, Any]) -> None:
    agent = small(env, **settings).learn(3 * ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"))
    assert same_training(again, agent)
    agent.learn(3 * ROWS)
    again.learn(3 * ROWS)
    assert same_training(again, agent)
    clocks = {key for key in agent.logger_values if key.startswith("time/")}
    assert {k: v for k, v in again.logger_values.items() if k not in clocks} == {
        k: v for k, v in agent.logger_values.items() if k not in clocks
    }


def test_saving_does_not_disturb_learning(tmp_path: Path) -> None:
    quiet, saving = small(), small()
    for _ in range(3):
        quiet.learn(ROWS)
        saving.learn(ROWS).save(tmp_path / "agent")
    assert same_training(quiet, saving)


def test_an_agent_may_be_saved_before_it_has_learned(tmp_path: Path) -> None:
    again = PPO.load(small().save(tmp_path / "agent"))
    assert again.num_timesteps == 0
    assert same_training(again.learn(2 * ROWS), small().learn(2 * ROWS))


def test_a_toy_world_that_speaks_for_itself_goes_on_exactly(tmp_path: Path) -> None:
    agent = small(Identity).learn(3 * ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"), env=Identity)
    assert same_training(again.learn(3 * ROWS), agent.learn(3 * ROWS))
    assert read_manifest(tmp_path / "agent").exact


def test_an_env_that_cannot_be_saved_starts_new_episodes(tmp_path: Path) -> None:
    agent = small(Random).learn(3 * ROWS)
    with pytest.warns(SurefootWarning, match="new episodes: the state of its envs was not saved"):
        again = PPO.load(agent.save(tmp_path / "agent"), env=Random)
    assert not read_manifest(tmp_path / "agent").exact
    assert same_training(again, agent)
    assert again.learn(ROWS).num_timesteps == 4 * ROWS


def test_normalizers_and_predictions_come_back(tmp_path: Path) -> None:
    agent = small("Pendulum-v1", normalize_observations=True, normalize_rewards=True).learn(4 * ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"))
    rows = np.random.default_rng(0).normal(size=(30, 3)) * 5
    assert np.array_equal(again.predict(rows, deterministic=True)[0], agent.predict(rows, deterministic=True)[0])
    assert again.learner.observations is not None
    assert agent.learner.observations is not None
    for name, saved in agent.learner.observations.state_dict().items():
        assert again.learner.observations.state_dict()[name].equal(saved)
    assert again.learner.rewards is not None
    assert agent.learner.rewards is not None
    assert again.learner.rewards.scale == agent.learner.rewards.scale
    assert again.evaluate(3, seed=5) == agent.evaluate(3, seed=5)


def test_the_configuration_comes_back(tmp_path: Path) -> None:
    agent = small(seed=7, learning_rate="linear(1e-3, 0)", env_kwargs={"sutton_barto_reward": True})
    assert PPO.load(agent.save(tmp_path / "agent")).config == agent.config


def test_a_saved_agent_is_three_files_without_code(tmp_path: Path) -> None:
    path = small().save(tmp_path / "agent")
    assert sorted(file.name for file in path.iterdir()) == ["manifest.json", "state.json", "tensors.safetensors"]
    json.loads((path / "state.json").read_text())
    json.loads((path / "manifest.json").read_text())


def test_saving_again_replaces(tmp_path: Path) -> None:
    agent = small()
    agent.save(tmp_path / "agent")
    agent.learn(ROWS).save(tmp_path / "agent")
    assert PPO.load(tmp_path / "agent").num_timesteps == ROWS


def test_missing_parents_are_made(tmp_path: Path) -> None:
    assert PPO.load(small().save(str(tmp_path / "a" / "b" / "agent"))).num_timesteps == 0


def test_a_directory_with_other_files_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SurefootError, match=r"notes\.txt"):
        small().save(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_env_without_id_must_be_given(tmp_path: Path) -> None:
    path = small(lambda: gymnasium.make("CartPole-v1")).save(tmp_path / "agent")
    with pytest.raises(ConfigError, match=r"PPO\.load\(path, env=…\)"):
        PPO.load(path).learn(ROWS)
    assert PPO.load(path, env=lambda: gymnasium.make("CartPole-v1")).config.n_envs == 2


def test_an_env_of_other_spaces_is_refused(tmp_path: Path) -> None:
    path = small().save(tmp_path / "agent")
    with pytest.raises(SurefootError, match="space is"):
        PPO.load(path, env="Acrobot-v1")
    with pytest.raises(SurefootError, match="space is"):
        PPO.load(path, env="Pendulum-v1")


def test_a_vector_env_is_given_again(tmp_path: Path) -> None:
    def make() -> SyncVectorEnv:
        return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2)

    agent = PPO(make(), **SMALL).learn(ROWS)
    with pytest.warns(SurefootWarning, match="new episodes"):
        again = PPO.load(agent.save(tmp_path / "agent"), env=make())
    assert same_training(again, agent)
    assert again.learn(ROWS).num_timesteps > agent.num_timesteps


def test_an_instance_made_with_arguments_is_made_again_with_them_or_asked_for(tmp_path: Path) -> None:
    env = gymnasium.make("CartPole-v1", sutton_barto_reward=True)
    path = PPO(env, **SMALL).save(tmp_path / "agent")
    try:
        again = PPO.load(path)
    except ConfigError:
        return
    assert again.config.env_kwargs == {"sutton_barto_reward": True}


def test_a_wrapped_instance_is_made_again_with_its_wrappers_or_asked_for(tmp_path: Path) -> None:
    env = gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: -1.0)
    path = PPO(env, **SMALL).save(tmp_path / "agent")
    with pytest.raises(ConfigError, match="no id"):
        PPO.load(path).learn(100)


def test_arguments_that_cannot_be_saved_are_refused_before_training() -> None:
    """Else a long training would end without anything to show."""

    def make(prices: Any) -> Random:
        return Random(spaces.Box(-1.0, 1.0, (len(prices),), np.float32))

    with pytest.raises(ConfigError, match="prices"):
        small(make, env_kwargs={"prices": np.arange(3.0)})  # type: ignore[arg-type]  # takes what env_kwargs gives


def test_what_is_not_there_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere"):
        PPO.load(tmp_path / "nowhere")


def test_a_run_directory_given_for_an_agent_is_recognised(tmp_path: Path) -> None:
    small().learn(ROWS, run_dir=tmp_path / "run")
    with pytest.raises(SurefootError, match=r"run.*checkpoints"):
        PPO.load(tmp_path / "run")


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "tensors.safetensors"])
def test_a_damaged_agent_is_refused(tmp_path: Path, name: str) -> None:
    path = small().save(tmp_path / "agent")
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 0xFF
    (path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match="corrupt"):
        PPO.load(path)


def test_weights_and_step_count_come_back(tmp_path: Path) -> None:
    agent = small().learn(2 * ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"))
    assert parameters(again).equal(parameters(agent))
    assert again.num_timesteps == 2 * ROWS


def test_a_limit_of_steps_given_to_an_instance_is_part_of_its_recipe(tmp_path: Path) -> None:
    env = gymnasium.make("CartPole-v1", max_episode_steps=5, render_mode="rgb_array")
    again = PPO.load(PPO(env, **SMALL).save(tmp_path / "agent"))
    assert again.config.env_kwargs == {"max_episode_steps": 5}
    assert again.evaluate(2).lengths == (5, 5)


def test_an_agent_loaded_for_another_env_is_saved_with_that_one(tmp_path: Path) -> None:
    path = small(lambda: gymnasium.make("CartPole-v1")).save(tmp_path / "agent")
    again = PPO.load(path, env="CartPole-v1")
    assert PPO.load(again.save(tmp_path / "again")).config.env == "CartPole-v1"
