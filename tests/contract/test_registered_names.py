"""The names that the schema lists are those that the registries know, and a registered name is taken everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from policy.test_own_encoder import LastSeen
from surefoot import PPO
from surefoot.actions.registry import BOX_FAMILIES, GAUSSIAN
from surefoot.config import CriticConfig, MemoryConfig, PolicyConfig, PPOConfig, RiskConfig, Section, from_dict, to_toml
from surefoot.config.load import from_toml
from surefoot.critics.build import CRITICS
from surefoot.errors import ConfigError
from surefoot.optim.build import OPTIMIZERS
from surefoot.policy.memories import MEMORIES
from surefoot.risk.build import KINDS

SETTINGS: dict[str, tuple[type[Section], str, Mapping[str, Any], set[str]]] = {
    "critic.kind": (CriticConfig, "kind", CRITICS, set()),
    "memory.kind": (MemoryConfig, "kind", MEMORIES, {"none"}),
    "risk.kind": (RiskConfig, "kind", KINDS, {"none"}),
    "ppo.optimizer": (PPOConfig, "optimizer", OPTIMIZERS, set()),
    "policy.distribution": (PolicyConfig, "distribution", BOX_FAMILIES, {"auto", *GAUSSIAN}),
}
"""By setting: its section and field, the registry, and names that need none."""
every_setting = pytest.mark.parametrize("setting", SETTINGS)


@every_setting
def test_the_schema_lists_what_is_registered(setting: str) -> None:
    section, field, registry, others = SETTINGS[setting]
    assert set(get_args(section.model_fields[field].annotation)) == set(registry) | others


@every_setting
def test_a_registered_name_is_taken_written_and_read(
    setting: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    section, _, field = setting.partition(".")
    with pytest.raises(ConfigError, match=rf"{section}\.{field} = 'mine'"):
        from_dict({section: {field: "mine"}})
    monkeypatch.setitem(SETTINGS[setting][2], "mine", None)
    config = from_dict({section: {field: "mine"}})
    assert config.model_dump(mode="json")[section][field] == "mine"
    (tmp_path / "config.toml").write_text(to_toml(config), encoding="utf-8")
    assert from_dict(from_toml(tmp_path / "config.toml")) == config


def test_an_agent_with_parts_of_a_callers_own_is_loaded_where_they_are_registered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(CRITICS, "mine", CRITICS["scalar"])
    monkeypatch.setitem(MEMORIES, "mine", lambda n_inputs, config, activation, init: LastSeen(n_inputs))
    settings: dict[str, Any] = {"critic": {"kind": "mine"}, "memory": {"kind": "mine"}}
    path = PPO("CartPole-v1", n_envs=2, n_steps=16, **settings).learn(32).save(tmp_path / "agent")
    assert PPO.load(path).learn(32).num_timesteps == 64
    monkeypatch.delitem(CRITICS, "mine")
    with pytest.raises(Exception, match=r"critic\.kind = 'mine'"):
        PPO.load(path)
