"""Demonstrations that an agent records can be imitated by another (P11)."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from surefoot import PPO
from surefoot.cli.main import main
from surefoot.errors import ConfigError, NonFiniteError
from surefoot.train import recording
from surefoot.train.recording import record
from train.agents import Random

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
    assert math.isfinite(pupil.logger_values["train/imitation_loss"])
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


def test_a_place_that_cannot_be_written_is_known_before_anything_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = PPO("CartPole-v1", **SMALL)

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("an episode was played")

    monkeypatch.setattr(recording, "record_episodes", refused)
    with pytest.raises(ConfigError, match=r"cannot write .*File name too long"):
        record(agent, tmp_path / ("x" * 300 + ".npz"), 1)


def test_what_was_not_recorded_whole_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    agent = PPO("CartPole-v1", **SMALL)
    with monkeypatch.context() as patched:
        patched.setattr(recording, "record_episodes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            record(agent, tmp_path / "demos.npz", 1)
    monkeypatch.setattr(recording, "save_demonstrations", full)
    with pytest.raises(ConfigError, match="No space left"):
        record(agent, tmp_path / "demos.npz", 1)
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_with_the_demonstrations_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A relative path is kept as the absolute one, other content is refused, another place is not."""
    teacher = PPO("CartPole-v1", **SMALL)
    monkeypatch.chdir(tmp_path)
    record(teacher, Path("demos.npz"), 2, seed=0)
    record(teacher, Path("others.npz"), 2, seed=50)
    given = ["--imitation.demonstrations", "demos.npz", "--imitation.coef", "0.5", "--compile", "false"]
    small = ["--n-envs", "2", "--ppo.n-steps", "16", "--ppo.batch-size", "16", "--quiet"]
    main(["train", "CartPole-v1", "--run-dir", "run", "--total-timesteps", "64", *given, *small])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    go_on = ["resume", str(tmp_path / "run"), "--quiet", "--total-timesteps"]
    main([*go_on, "96"])
    kept = (tmp_path / "demos.npz").read_bytes()
    (tmp_path / "demos.npz").write_bytes((tmp_path / "others.npz").read_bytes())
    with pytest.raises(SystemExit):
        main([*go_on, "128"])
    assert "other demonstrations than those that the training began with" in capsys.readouterr().err
    (elsewhere / "moved.npz").write_bytes(kept)
    main([*go_on, "128", "--demonstrations", "moved.npz"])
    assert "continuing exactly" in capsys.readouterr().err


def test_other_demonstrations_are_taken_if_they_are_named(tmp_path: Path) -> None:
    teacher = PPO("CartPole-v1", **SMALL)
    for name, seed in (("first", 0), ("second", 50)):
        record(teacher, tmp_path / f"{name}.npz", 2, seed)
    pupil = PPO("CartPole-v1", **SMALL, imitation={"coef": 1.0, "demonstrations": str(tmp_path / "first.npz")})
    pupil.learn(32).save(tmp_path / "pupil")
    (tmp_path / "first.npz").write_bytes((tmp_path / "second.npz").read_bytes())
    again = PPO.load(tmp_path / "pupil")
    with pytest.raises(ConfigError, match="other demonstrations"):
        again.learn(32)
    assert again.num_timesteps == 32, "it is known before a step is made"
    PPO.load(tmp_path / "pupil", imitation={"demonstrations": str(tmp_path / "second.npz")}).learn(32)
    settings = {"coef": 1.0, "demonstrations": str(tmp_path / "first.npz"), "fingerprint": "0" * 64}
    with pytest.raises(ConfigError, match=r"not imitation\.fingerprint"):
        PPO("CartPole-v1", **SMALL, imitation=settings)


def test_behaviour_cloning_is_resumed_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """beta = none is not the default, and TOML has no word for None."""
    record(PPO("CartPole-v1", **SMALL), tmp_path / "demos.npz", 1)
    given = ["--imitation.demonstrations", str(tmp_path / "demos.npz"), "--imitation.coef", "0.5"]
    small = ["--n-envs", "2", "--ppo.n-steps", "16", "--ppo.batch-size", "16", "--quiet", "--compile", "false"]
    run = tmp_path / "run"
    words = ["train", "CartPole-v1", "--run-dir", str(run), "--total-timesteps", "64", *given, *small]
    main([*words, "--imitation.beta", "none"])
    assert 'beta = "none"' in (run / "config.toml").read_text()
    main(["resume", str(run), "--quiet", "--total-timesteps", "128"])
    assert "continuing exactly" in capsys.readouterr().err
    main(["inspect", str(run), "--json"])
    assert json.loads(capsys.readouterr().out)["config"]["imitation"]["beta"] is None
    main(["train", "--config", str(run / "config.toml"), "--run-dir", str(tmp_path / "again"), "--quiet"])
    assert 'beta = "none"' in (tmp_path / "again" / "config.toml").read_text()


def test_what_cannot_be_imitated_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = PPO(lambda: Random(scale=np.nan), **SMALL)
    with pytest.raises(NonFiniteError, match="reward is nan"):
        record(agent, tmp_path / "demos.npz", 1)
    agent = PPO("CartPole-v1", **SMALL)
    for seed in (-1, 2**70):
        with pytest.raises(ConfigError, match="seed must be at least 0"):
            record(agent, tmp_path / "demos.npz", 1, seed)
    monkeypatch.setattr(recording, "MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match="more than 1,000 bytes: record fewer than 50 episodes"):
        record(agent, tmp_path / "demos.npz", 50)
    assert list(tmp_path.iterdir()) == []


def test_actions_of_several_parts_are_refused_with_a_reason(tmp_path: Path) -> None:
    action = spaces.Dict({"op": spaces.Discrete(2), "size": spaces.Box(-1.0, 1.0, (1,))})
    agent = PPO(lambda: Random(action_space=action), **SMALL)
    with pytest.raises(ConfigError, match="Discrete, MultiDiscrete, MultiBinary or Box actions, not a dict"):
        record(agent, tmp_path / "demos.npz", 1)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    PPO("CartPole-v1", **SMALL).learn(32, run_dir=tmp_path / "run")
    out = tmp_path / "demos.npz"
    main(["record", str(tmp_path / "run"), "--episodes", "2", "--out", str(out), "--json"])
    assert '"episodes": 2' in capsys.readouterr().out
    assert np.load(out)["episode_start"].sum() == 2
