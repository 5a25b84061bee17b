"""Published settings are valid, as published, and can be used as they are."""

from __future__ import annotations

import math
from pathlib import Path

import gymnasium
import pytest
import torch

from surefoot import PPO, preset
from surefoot.actions.registry import family_for
from surefoot.config import from_dict, from_flat
from surefoot.config.presets import NAMED, PRESETS
from surefoot.errors import ConfigError

TASKS = {
    "CartPole-v1",
    "Acrobot-v1",
    "Pendulum-v1",
    "MountainCarContinuous-v0",
    "LunarLander-v3",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Walker2d-v5",
}


def test_all_promised_tasks_have_settings() -> None:
    assert PRESETS.keys() == TASKS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_valid_configuration_from_keywords_and_from_sections(name: str) -> None:
    config = from_dict(preset(name) | {"env": name})
    assert config == from_flat(env=name, **preset(name))
    assert config.rollout_rows % config.batch_size == 0
    assert not config.critic.in_return_stds  # the sources know no PopArt


@pytest.mark.parametrize("name", PRESETS)
def test_an_agent_can_be_made_from_a_preset(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log where it is used
    try:
        gymnasium.make(name).close()
    except gymnasium.error.DependencyNotInstalled as missing:
        pytest.skip(str(missing))
    agent = PPO(name, **preset(name))
    assert agent.config.env == name
    agent.close()


def test_cartpole_has_the_published_numbers() -> None:
    config = from_dict(preset("CartPole-v1"))
    assert (config.n_envs, config.total_timesteps) == (8, 100_000)
    assert (config.ppo.n_steps, config.ppo.batch_size, config.ppo.n_epochs) == (32, 256, 20)
    assert (config.ppo.gamma, config.ppo.gae_lambda) == (0.98, 0.8)
    assert (config.ppo.learning_rate, config.ppo.clip_range) == ("linear(1e-3, 0)", "linear(0.2, 0)")


def test_acrobot_has_the_published_numbers() -> None:
    config = from_dict(preset("Acrobot-v1"))
    assert (config.n_envs, config.total_timesteps) == (16, 500_000)
    assert (config.ppo.n_steps, config.ppo.n_epochs, config.ppo.gae_lambda) == (256, 4, 0.94)
    assert config.ppo.normalize_observations
    assert config.ppo.normalize_rewards


def test_pendulum_has_the_published_numbers() -> None:
    config = from_dict(preset("Pendulum-v1"))
    assert (config.n_envs, config.total_timesteps) == (4, 100_000)
    assert (config.ppo.n_steps, config.ppo.n_epochs) == (1024, 10)
    assert (config.ppo.gamma, config.ppo.learning_rate) == (0.9, 1e-3)


def test_published_log_stds_are_those_of_the_env_action() -> None:
    """σ = 1 of Pendulum's [−2, 2], σ = e^0.5 of MountainCar's [−1, 1]."""
    for name, log_std in (("Pendulum-v1", 0.0), ("MountainCarContinuous-v0", 0.5)):
        space = gymnasium.make(name).action_space
        family = family_for(space, log_std_init=from_dict(preset(name)).policy.log_std_init)
        assert family.state_independent is not None
        entropy = family.bind(torch.cat([torch.zeros(1), family.state_independent])[None]).entropy()
        assert float(entropy) == pytest.approx(0.5 * math.log(2 * math.pi * math.e) + log_std)


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Hopper-v5", "Walker2d-v5"])
def test_mujoco_has_the_published_numbers(name: str) -> None:
    config = from_dict(preset(name))
    assert config.n_envs == 1
    assert (config.ppo.n_steps, config.rollout_rows // config.batch_size, config.ppo.n_epochs) == (2048, 32, 10)
    assert config.ppo.learning_rate == "linear(3e-4, 0)"
    assert config.ppo.normalize_observations
    assert config.ppo.normalize_rewards
    assert (config.ppo.observation_clip, config.ppo.reward_clip) == (10.0, 10.0)


def test_changing_what_preset_returns_changes_no_preset() -> None:
    mine = preset("CartPole-v1")
    mine["ppo"]["n_steps"] = 1
    mine["n_envs"] = 1
    assert preset("CartPole-v1")["ppo"]["n_steps"] == 32
    assert preset("CartPole-v1")["n_envs"] == 8


@pytest.mark.parametrize("name", NAMED)
def test_a_named_preset_carries_its_env(name: str) -> None:
    given = preset(name)
    data = {"market": given["market"] | {"data": "sp500"}} if "market" in given else {}
    config = from_dict(given | data)
    assert config == from_flat(**(given | data))
    assert config.env == given["env"]
    assert config.rollout_rows % config.batch_size == 0


def test_an_unknown_preset_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"no preset for 'Cartpole-v1'; did you mean 'CartPole-v1'\?"):
        preset("Cartpole-v1")
