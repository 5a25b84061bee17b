"""The page for users of Stable-Baselines3 names settings that exist and defaults that hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from surefoot import Config, preset
from surefoot.errors import ConfigError
from surefoot.train.setup import configure

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "migration-from-sb3.md").read_text()
AGENT = re.compile(r"`(PPO\(.*?\))`")


def agents() -> list[str]:
    """Agents in the column of Surefoot and in the text, as `PPO(…)`."""
    rows = [line.split(" | ", 1)[-1] for line in PAGE.splitlines()]
    return [found for row in rows for found in AGENT.findall(row)]


def test_the_page_has_agents_to_check() -> None:
    assert len(agents()) >= 15


@pytest.mark.parametrize("agent", agents())
def test_every_agent_of_the_page_has_valid_settings(agent: str) -> None:
    config = eval(agent, {"PPO": lambda env, **settings: configure(env, settings)[0], "preset": preset, "dict": dict})
    assert isinstance(config, Config)


def test_the_settings_nearest_to_sb3_have_its_rollout_and_plain_critic() -> None:
    nearest, _ = configure(
        "CartPole-v1",
        {"n_envs": 1, "n_steps": 2048, "normalize_advantage": "minibatch", "critic": {"popart": False}},
    )
    assert nearest.rollout_rows == Config().rollout_rows == 2048
    assert nearest.batch_size == Config().batch_size == 64
    assert Config().critic.in_return_stds
    assert not nearest.critic.in_return_stds


@pytest.mark.parametrize(
    ("given", "here"),
    [
        ("policy_kwargs", "policy"),
        ("net_arch", "policy.hidden_sizes"),
        ("tensorboard_log", "run_dir"),
        ("verbose", "progress_bar"),
        ("norm_obs", "normalize_observations"),
    ],
)
def test_a_name_of_sb3_is_refused_with_the_name_here(given: str, here: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown setting '{given}'; here it is called .*{re.escape(here)}"):
        configure("CartPole-v1", {given: 1})
