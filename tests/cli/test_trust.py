"""Files are data: nothing that is read from one names code that gets run (Y03)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.commands import Surefoot
from surefoot import PPO
from surefoot.errors import ConfigError
from surefoot.store import Snapshot, read_checkpoint, write_checkpoint
from surefoot.train.trust import require_no_code
from train.agents import SMALL, small

CODE: dict[str, dict[str, Any]] = {
    "a callable of the standard library": {"env": "os:system", "env_kwargs": {"command": "touch executed"}},
    "an id of a module": {"env": "wicked:CartPole-v1", "env_kwargs": {}},
    "a callable in a package": {"env": "wicked.inner:make", "env_kwargs": {}},
    "through an argument": {"env": "GymV26Environment-v0", "env_kwargs": {"env_id": "wicked:Id-v0"}},
    "through an argument that is no id": {"env": "GymV26Environment-v0", "env_kwargs": {"env_id": "wicked:1-v0"}},
    "through an address": {"env": "GymV21Environment-v0", "env_kwargs": {"env_id": "wicked://x"}},
    "deep in an argument": {"env": "CartPole-v1", "env_kwargs": {"a": [{"b": "wicked:make"}]}},
    "with white space": {"env": " os : system", "env_kwargs": {}},
    "nothing before the colon": {"env": ":system", "env_kwargs": {}},
}


def wicked_checkpoint(path: Path, config: dict[str, Any]) -> Path:
    snapshot, _ = read_checkpoint(small().save(path.with_name("good")))
    saved: Any = snapshot.values["config"]
    values = {**snapshot.values, "config": saved | config}
    return write_checkpoint(path, Snapshot(snapshot.tensors, values), exact=True, config_hash="0" * 16, versions={})


@pytest.fixture
def wicked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a module that leaves a file when it is imported; on the path, and the working directory."""
    (tmp_path / "wicked.py").write_text("open('executed', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("config", CODE.values(), ids=CODE.keys())
def test_a_checkpoint_names_no_code(wicked: Path, surefoot: Surefoot, config: dict[str, Any]) -> None:
    path = wicked_checkpoint(wicked / "agent", config)
    with pytest.raises(ConfigError, match="would import the module"):
        PPO.load(path)
    ended = surefoot("eval", path)
    assert ended.code == 2
    assert "--trust-module" in ended.err
    assert not (wicked / "executed").exists()


@pytest.mark.parametrize("config", CODE.values(), ids=CODE.keys())
def test_a_configuration_names_no_code(wicked: Path, surefoot: Surefoot, config: dict[str, Any]) -> None:
    kwargs = ", ".join(f"{key} = {_toml(value)}" for key, value in config["env_kwargs"].items())
    (wicked / "my.toml").write_text(f'env = "{config["env"]}"\nenv_kwargs = {{{kwargs}}}\n')
    ended = surefoot("train", "--config", "my.toml", "--run-dir", "run")
    assert ended.code == 2
    assert "would import the module" in ended.err
    assert not (wicked / "executed").exists()
    assert not (wicked / "run").exists()


def test_resuming_a_run_imports_nothing_that_it_names(wicked: Path, surefoot: Surefoot) -> None:
    small(run={"sinks": (), "checkpoint_every": 0}).learn(32, run_dir=wicked / "run")
    (found,) = (wicked / "run" / "checkpoints").iterdir()
    text = (wicked / "run" / "config.toml").read_text().replace('"CartPole-v1"', '"wicked:make"')
    (wicked / "run" / "config.toml").write_text(text)
    snapshot, manifest = read_checkpoint(found)
    saved: Any = snapshot.values["config"]
    values = {**snapshot.values, "config": saved | {"env": "wicked:make"}}
    step, versions = manifest.step, manifest.versions
    write_checkpoint(
        found, Snapshot(snapshot.tensors, values), exact=True, config_hash="0" * 16, versions=versions, step=step
    )
    ended = surefoot("resume", wicked / "run", "--total-timesteps", "64")
    assert ended.code == 2
    assert "--trust-module wicked" in ended.err
    for file in found.iterdir():
        file.write_bytes(b"broken")
    ended = surefoot("resume", wicked / "run", "--fresh")
    assert ended.code == 2
    assert "--trust-module wicked" in ended.err
    assert not (wicked / "executed").exists()


def test_what_the_caller_names_is_imported(wicked: Path, surefoot: Surefoot) -> None:
    (wicked / "mine.py").write_text("import gymnasium\ndef make():\n    return gymnasium.make('CartPole-v1')\n")
    path = wicked_checkpoint(wicked / "agent", {"env": "mine:make"})
    assert surefoot("eval", path, "--episodes", "1", "--trust-module", "mine").code == 0
    assert PPO.load(path, env="mine:make").evaluate(1).lengths
    assert surefoot("eval", path, "--episodes", "1", "--trust-module", "other").code == 2
    assert PPO("mine:make", **SMALL).learn(16)


def test_text_that_names_no_module_is_left_alone() -> None:
    for harmless in ("a:/b", "09:30", "http://x", "C:\\data", "plain", "x: y z", "éa:b c"):
        require_no_code("CartPole-v1", {"x": harmless}, "a file")
    require_no_code("surefoot/Market-v0", {"symbol": "NYSE:AAPL"}, "a file")
    require_no_code("CartPole-v1", {"x": "pkg:make"}, "a file", trusted=["pkg"])


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(part)}" for key, part in value.items()) + "}"
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else f'"{value}"'
