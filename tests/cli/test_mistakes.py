"""Typing mistakes and broken files: exit code 2, one message that names the right word, and nothing written."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from cli.commands import SURELY_QUICK, Surefoot
from surefoot.cli.main import build_parser
from surefoot.cli.options import collect_settings
from surefoot.config.load import leaves

MISTAKES: dict[str, tuple[list[str], list[str]]] = {
    "no env": ([], ["surefoot train ENV"]),
    "unknown env": (["CartPol-v1"], ["CartPol-v1", "CartPole"]),
    "unknown option": (["CartPole-v1", "--ppo.learning-rte", "1"], ["--ppo.learning-rte", "ppo.learning-rate"]),
    "unknown option with value": (["CartPole-v1", "--ppo.gama=0.9"], ["--ppo.gama", "ppo.gamma"]),
    "section left out": (["CartPole-v1", "--n-steps", "8"], ["--n-steps", "ppo.n-steps"]),
    "name from elsewhere": (["CartPole-v1", "--ppo.lr", "1"], ["--ppo.lr", "ppo.learning-rate"]),
    "abbreviated option": (["CartPole-v1", "--ppo.learning-rat", "1"], ["--ppo.learning-rat", "ppo.learning-rate"]),
    "abbreviated command option": (["CartPole-v1", "--run-di", "x"], ["--run-di", "run-dir"]),
    "stray word": (["CartPole-v1", "Pendulum-v1"], ["Pendulum-v1"]),
    "value left out": (["CartPole-v1", "--seed"], ["--seed", "expected one argument"]),
    "text for a number": (["CartPole-v1", "--seed", "abc"], ["seed = 'abc'", "integer"]),
    "fraction for a count": (["CartPole-v1", "--n-envs", "2.5"], ["n_envs = 2.5", "integer"]),
    "out of range": (["CartPole-v1", "--ppo.gamma", "1.5"], ["ppo.gamma = 1.5", "less than or equal to 1"]),
    "negative": (["CartPole-v1", "--seed", "-1"], ["seed = -1", "greater than or equal to 0"]),
    "wrong choice": (["CartPole-v1", "--policy.activation", "rlu"], ["policy.activation = 'rlu'", "'relu'"]),
    "wrong schedule": (["CartPole-v1", "--ppo.clip-range", "linera(1, 0)"], ["ppo.clip_range", "linear(a, b)"]),
    "contradiction": (["CartPole-v1", "--ppo.batch-size", "9999"], ["batch_size = 9999", "2048"]),
    "no JSON": (["CartPole-v1", "--env-kwargs", "{g: 1"], ["--env-kwargs", "JSON object"]),
    "JSON but no object": (["CartPole-v1", "--env-kwargs", "[1]"], ["--env-kwargs", "JSON object"]),
    "argument that the env has not": (["CartPole-v1", "--env-kwargs", '{"foo": 1}'], ["CartPole-v1", "foo"]),
    "unknown preset": (["CartPole-v1", "--preset", "Cartpole-v1"], ["Cartpole-v1", "'CartPole-v1'"]),
    "no config file": (["CartPole-v1", "--config", "absent.toml"], ["absent.toml"]),
    "module that is not there": (["nowhere:make"], ["nowhere:make"]),
    "device that is not there": (["CartPole-v1", "--device", "gpu"], ["device = 'gpu'"]),
    "device without numbers": (["CartPole-v1", "--device", "meta"], ["device = 'meta'", "use cpu, cuda"]),
    "name that is too long": (["CartPole-v1", "--run-dir", "x" * 300], ["run directory xxx", "File name too long"]),
    "no module and no name": ([":"], ["cannot import the env ':'"]),
    "relative module": (["..x:y"], ["cannot import the env '..x:y'"]),
    "markup in the env": (["x[/a]:y"], ["cannot import the env 'x[/a]:y'"]),
    "huge layers": (
        ["CartPole-v1", "--policy.hidden-sizes", "100000000", "100000000"],
        ["policy.hidden_sizes = [100000000, 100000000]", "160,000,001,600,000,000 bytes"],
    ),
    "layer beyond 64 bits": (
        ["CartPole-v1", "--policy.hidden-sizes", "1" + 20 * "0"],
        ["hidden_sizes", "1.6e+21 bytes"],
    ),
    "huge memory": (
        ["CartPole-v1", "--memory.kind", "lstm", "--memory.hidden-size", "1e9"],
        ["memory.hidden_size = 1000000000"],
    ),
    "huge critic": (
        ["CartPole-v1", "--critic.kind", "quantile", "--critic.n-quantiles", "1e15"],
        ["critic.n_quantiles = 1000000000000000"],
    ),
    "huge rollout": (["CartPole-v1", "--ppo.n-steps", "1e13"], ["ppo.n_steps = 10000000000000 by n_envs = 8", "bytes"]),
    "rollout beyond 64 bits": (["CartPole-v1", "--ppo.n-steps", "1e23"], ["ppo.n_steps = ", "bytes"]),
    "huge number of envs": (
        ["CartPole-v1", "--n-envs", "1e12", "--ppo.n-steps", "1"],
        ["n_envs = 1000000000000", "bytes"],
    ),
    "deep env arguments": (
        ["CartPole-v1", "--env-kwargs", '{"a":' * 3000 + "1" + "}" * 3000],
        ["--env-kwargs", "nested too deeply"],
    ),
    "seed beyond 64 bits": (["CartPole-v1", "--seed", "9" * 30], ["seed = 999", "less than"]),
    "seed of 5,000 digits": (["CartPole-v1", "--seed", "9" * 5000], ["--seed", "5000 characters"]),
    "sizes before the env": (
        ["--policy.hidden-sizes", "8", "8", "CartPole-v1"],
        ["policy.hidden_sizes", "CartPole-v1"],
    ),
    "switch before the env": (["--ppo.normalize-rewards", "CartPole-v1"], ["ppo.normalize_rewards", "CartPole-v1"]),
}


@pytest.mark.parametrize(("words", "parts"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_and_nothing_is_written(
    surefoot: Surefoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], parts: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # a mistake that is not seen should at least not train for long
    ended = surefoot("train", *words, *(["--total-timesteps", "32"] if words else []), "--quiet")
    assert ended.code == 2
    assert [part for part in parts if part not in ended.err] == []
    assert ended.out == ""
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("[ppo\nn_steps = 8", ["not valid TOML", "line 1"]),
        ("[ppo]\nn_step = 8", ["'ppo.n_step'", "'n_steps'"]),
        ("[ppo]\nlr = 8", ["'ppo.lr'", "learning_rate"]),
        ("[polcy]\nshared = true", ["'polcy'", "'policy'"]),
        ("n_steps = 8", ["'n_steps'", "'ppo.n_steps'"]),
        ("[ppo]\ngamma = '0.9'", ["ppo.gamma = '0.9'"]),
        ("ppo = 3", ["ppo = 3"]),
        ("env = 3", ["env = 3"]),
        ("[policy]\nhidden_sizes = 64", ["policy.hidden_sizes = 64"]),
        ("seed = " + "9" * 5000, ["not valid TOML", "5000 digits"]),
        ("seed = 0x" + "f" * 5000, ["seed = …", "less than"]),
        ("[policy]\nactivation = '" + "x" * 5000 + "'", ["policy.activation = 'xxx", "…"]),
        ("[policy]\nhidden_sizes = " + "[" * 5000 + "]" * 5000, ["not valid TOML", "nested too deeply"]),
        ("seed = 1\n" + "#" * 2**20, ["longer than 1048576 bytes"]),
    ],
)
def test_a_mistake_in_a_file_is_named_and_nothing_is_written(
    surefoot: Surefoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, parts: list[str]
) -> None:
    (tmp_path / "run.toml").write_text(content)
    monkeypatch.chdir(tmp_path)
    words = ["CartPole-v1"] if "env" not in content else []
    ended = surefoot("train", *words, "--config", "run.toml", "--total-timesteps", "32", "--quiet")
    assert ended.code == 2
    assert [part for part in parts if part not in ended.err] == []
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ('raise RuntimeError("no licence")', ["RuntimeError: no licence"]),
        ("def make(:", ["SyntaxError", "line 1"]),
        ("import sys\nsys.exit(0)", ["SystemExit: 0"]),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(
    surefoot: Surefoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, parts: list[str]
) -> None:
    (tmp_path / "unimportable.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    ended = surefoot("train", "unimportable:make", "--run-dir", tmp_path / "run", "--quiet")
    assert ended.code == 2
    assert [part for part in ["cannot import the env 'unimportable:make'", *parts] if part not in ended.err] == []
    assert not (tmp_path / "run").exists()


def test_an_unknown_command_lists_the_known_ones(surefoot: Surefoot) -> None:
    ended = surefoot("trian")
    assert ended.code == 2
    assert "'trian'" in ended.err
    assert "'train'" in ended.err


@pytest.mark.parametrize("sink", ["wandb", "mlflow"])
def test_a_sink_that_is_not_installed_leaves_no_run_behind(surefoot: Surefoot, tmp_path: Path, sink: str) -> None:
    if importlib.util.find_spec(sink) is not None:
        pytest.skip(f"{sink} is installed")
    ended = surefoot.train(tmp_path / "run", "--run.sinks", sink)
    assert ended.code == 2
    assert f"pip install 'surefoot[{sink}]'" in ended.err
    assert not (tmp_path / "run").exists()
    assert surefoot.train(tmp_path / "run").code == 0


def test_a_directory_that_holds_a_run_is_refused_and_kept(surefoot: Surefoot, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert surefoot.train(run).code == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    ended = surefoot.train(run)
    assert ended.code == 2
    assert f"surefoot resume {run}" in ended.err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", ["resume", "eval", "inspect"])
def test_a_missing_run_is_named(surefoot: Surefoot, tmp_path: Path, command: str) -> None:
    ended = surefoot(command, tmp_path / "nowhere")
    assert ended.code == 2
    assert f"there is no run directory {tmp_path / 'nowhere'}" in ended.err


@pytest.mark.parametrize("command", ["resume", "eval", "inspect"])
def test_a_directory_without_a_run_is_named(surefoot: Surefoot, tmp_path: Path, command: str) -> None:
    ended = surefoot(command, tmp_path)
    assert ended.code == 2
    assert "holds no run" in ended.err


@pytest.mark.parametrize("command", ["resume", "eval", "inspect"])
def test_a_run_with_too_long_a_name_is_named(surefoot: Surefoot, command: str) -> None:
    ended = surefoot(command, "x" * 300)
    assert ended.code == 2
    assert "File name too long" in ended.err


@pytest.mark.parametrize("episodes", ["0", "-1", "many", "9" * 5000])
def test_a_wrong_number_of_episodes_is_refused(surefoot: Surefoot, tmp_path: Path, episodes: str) -> None:
    run = tmp_path / "run"
    surefoot.train(run)
    ended = surefoot("eval", run, "--episodes", episodes)
    assert ended.code == 2
    assert "--episodes" in ended.err


@pytest.mark.parametrize("seed", ["-1", str(2**63), "9" * 5000])
def test_a_seed_of_an_evaluation_that_is_none_is_refused(surefoot: Surefoot, tmp_path: Path, seed: str) -> None:
    run = tmp_path / "run"
    surefoot.train(run)
    ended = surefoot("eval", run, "--seed", seed)
    assert ended.code == 2
    assert "seed" in ended.err.lower()


@pytest.mark.parametrize("goal", ["0", "-3"])
def test_a_goal_that_is_not_positive_is_refused(surefoot: Surefoot, tmp_path: Path, goal: str) -> None:
    run = tmp_path / "run"
    surefoot.train(run)
    ended = surefoot("resume", run, "--total-timesteps", goal)
    assert ended.code == 2
    assert "total" in ended.err


def test_underscores_are_as_good_as_dashes(surefoot: Surefoot, tmp_path: Path) -> None:
    words = [word.replace("-", "_").replace("__", "--") for word in SURELY_QUICK]
    ended = surefoot("train", "CartPole-v1", "--run_dir", tmp_path / "run", "--total_timesteps", "32", *words)
    assert ended.code == 0


@pytest.mark.parametrize("name", [name for name, _ in leaves() if name != "env"])
def test_every_setting_has_an_option(name: str) -> None:
    value = '{"g": 1}' if name.endswith("env_kwargs") else "1"
    arguments = build_parser().parse_args(["train", "CartPole-v1", f"--{name.replace('_', '-')}", value])
    found: Any = collect_settings(arguments)
    for part in name.split("."):
        assert list(found) == [part]
        found = found[part]
    assert found in (1, [1], {"g": 1})


@pytest.mark.parametrize("word", ["-1", "-0.5", "-.5", "-5e-1", "-1E2"])
def test_negative_numbers_are_values_in_any_notation(word: str) -> None:
    arguments = build_parser().parse_args(["train", "Pendulum-v1", "--policy.log-std-init", word])
    assert collect_settings(arguments) == {"policy": {"log_std_init": float(word)}}
