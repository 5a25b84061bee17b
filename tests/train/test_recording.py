"""Demonstrations that an agent records can be imitated by another (P11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot import PPO
from surefoot.cli.main import main
from surefoot.errors import ConfigError
from surefoot.train.recording import record

SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "compile": False}


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {"normalize_observations": True}),
        ("CartPole-v1", {"memory": {"kind": "gru", "hidden_size": 8}}),
        ("Pendulum-v1", {}),
        ("surefoot/Corridor-v0", {}),
    ],
)
def test_a_recorded_set_holds_whole_episodes_that_can_be_imitated(
    tmp_path: Path, env: str, settings: dict[str, Any]
) -> None:
    agent = PPO(env, **SMALL, **settings)
    path = tmp_path / "demos.npz"
    arrays = record(agent, path, 3, seed=7)
    kept = np.load(path, allow_pickle=False)
    assert {name: array.tolist() for name, array in arrays.items()} == {name: kept[name].tolist() for name in kept}
    played = agent.evaluate(3, seed=7)
    assert arrays["episode_start"].sum() == 3
    assert len(arrays["action"]) == sum(played.lengths)
    starts = np.flatnonzero(arrays["episode_start"])
    assert np.add.reduceat(arrays["reward"], starts) == pytest.approx(list(played.returns))
    pupil = PPO(env, **SMALL, imitation={"coef": 1.0, "demonstrations": str(path)}).learn(64)
    assert pupil.logger_values["train/imitation_loss"] == pytest.approx(pupil.logger_values["train/imitation_loss"])
    pupil.save(tmp_path / "pupil")
    path.unlink()
    loaded = PPO.load(tmp_path / "pupil")  # to act, it needs no demonstrations
    assert loaded.evaluate(1).lengths == pupil.evaluate(1).lengths
    with pytest.raises(ConfigError, match="no file at"):
        loaded.learn(32)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    agent = PPO("CartPole-v1", **SMALL)
    (tmp_path / "demos.npz").write_text("mine")
    for name, told in (("demos.npz", "exists already"), ("demos.txt", r"as \.npz"), ("no/demos.npz", "no directory")):
        with pytest.raises(ConfigError, match=told):
            record(agent, tmp_path / name, 1)
    assert (tmp_path / "demos.npz").read_text() == "mine"
    with pytest.raises(ConfigError, match="at least 1"):
        record(agent, tmp_path / "new.npz", 0)


def test_actions_of_several_parts_are_refused_with_a_reason(tmp_path: Path) -> None:
    agent = PPO("surefoot/Greenhouse-v0", **SMALL)
    if isinstance(agent.envs.action_space.sample(), dict | tuple):
        with pytest.raises(ConfigError, match="Discrete, MultiDiscrete or Box"):
            record(agent, tmp_path / "demos.npz", 1)


def test_the_command_line_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    PPO("CartPole-v1", **SMALL).learn(32, run_dir=tmp_path / "run")
    out = tmp_path / "demos.npz"
    main(["record", str(tmp_path / "run"), "--episodes", "2", "--out", str(out), "--json"])
    assert '"episodes": 2' in capsys.readouterr().out
    assert np.load(out)["episode_start"].sum() == 2
